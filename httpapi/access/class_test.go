package access

import (
	"strings"
	"testing"
)

func TestRolesIncludePreviousRoles(t *testing.T) {
	read, exec, edit, admin := RoleRead.Classes(), RoleExec.Classes(), RoleEdit.Classes(), RoleAdmin.Classes()
	if !exec.Has(read) || !edit.Has(exec) || !admin.Has(edit) || exec == read || edit == exec || admin == edit {
		t.Errorf("read %v, exec %v, edit %v, admin %v", read, exec, edit, admin)
	}
	if read.Has(Exec) || exec.Has(Write) || edit.Has(Admin) || Role("root").Classes() != 0 {
		t.Errorf("read %v, exec %v, root %v: too much", read, exec, Role("root").Classes())
	}
	if All.String() != "health|metrics|read|logs|exec|write|admin" || Class(0).String() != "none" {
		t.Errorf("All is %v", All)
	}
}

func TestParseRoleErrorListsRoles(t *testing.T) {
	for _, text := range []string{"", "root", "Admin", "admin "} {
		if _, err := ParseRole(text); err == nil || !strings.Contains(err.Error(), "must be read, exec, edit or admin") {
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
