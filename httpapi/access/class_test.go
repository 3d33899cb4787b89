package access

import (
	"strings"
	"testing"
)

func TestRolesIncludePreviousRoles(t *testing.T) {
	read, exec, admin := RoleRead.Classes(), RoleExec.Classes(), RoleAdmin.Classes()
	if !exec.Has(read) || !admin.Has(exec) || exec == read || admin == exec {
		t.Errorf("read %v, exec %v, admin %v", read, exec, admin)
	}
	if read.Has(Exec) || exec.Has(Admin) || Role("root").Classes() != 0 {
		t.Errorf("read %v, exec %v, root %v: too much", read, exec, Role("root").Classes())
	}
	if All.String() != "health|metrics|read|logs|exec|admin" || Class(0).String() != "none" {
		t.Errorf("All is %v", All)
	}
}

func TestParseRoleErrorListsRoles(t *testing.T) {
	for _, text := range []string{"", "root", "Admin", "admin "} {
		if _, err := ParseRole(text); err == nil || !strings.Contains(err.Error(), "must be read, exec or admin") {
			t.Errorf("ParseRole(%q) = %v", text, err)
		}
	}
}

func TestNoCallerHasNoPermissions(t *testing.T) {
	if c := CallerFrom(t.Context()); c.Classes != 0 || c.Local {
		t.Errorf("a request without a caller may %v", c.Classes)
	}
	ctx := WithCaller(t.Context(), Caller{User: "eve", Classes: Read})
	if c := CallerFrom(ctx); c.User != "eve" || c.Classes != Read {
		t.Errorf("Of = %+v", c)
	}
}
