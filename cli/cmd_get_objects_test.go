package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const someObjects = `[
	{"kind":"ConfigMap","namespace":"default","name":"web","source":"file","manifest":"/etc/pods/web.yaml","revision":"k-1","keys":["a","b"]},
	{"kind":"ConfigMap","namespace":"shop","name":"empty","source":"http","manifest":"http://h/p","revision":"k-2"},
	{"kind":"Secret","namespace":"default","name":"login","source":"file","manifest":"/etc/pods/web.yaml","revision":"k-3","keys":["password"],"type":"Opaque"},
	{"kind":"PriorityClass","name":"high","source":"file","manifest":"/etc/pods/web.yaml","revision":"k-4"}]`

func TestGetObjects(t *testing.T) {
	socket := daemonWithObjects(t, someObjects)
	for _, c := range []struct {
		args string
		want string
	}{
		{"configmaps", "NAMESPACE   NAME    KEYS     MANIFEST\ndefault     web     a,b      /etc/pods/web.yaml\nshop       " +
			" empty   <none>   http://h/p\n"},
		{"cm web -o name", "configmap/web\n"},
		{"configmap -n shop -o name", "configmap/empty\n"},
		{"secrets", "NAMESPACE   NAME    TYPE     KEYS       MANIFEST\ndefault     login   Opaque   password   " +
			"/etc/pods/web.yaml\n"},
		{"secret secret/login -o name", "secret/login\n"},
		{"secrets -n none -o name", ""},
		{"cm web -o jsonpath={.data.a}", "1"},
		{"pc", "NAME   MANIFEST\nhigh   /etc/pods/web.yaml\n"},
	} {
		out, errs, err := execute(t, "", append([]string{"get", "--api-socket", socket}, strings.Fields(c.args)...)...)
		if err != nil || errs != "" || out != c.want {
			t.Errorf("get %s: %q %q %v, want %q", c.args, out, errs, err, c.want)
		}
	}
	_, errs, err := execute(t, "", "get", "secrets", "--api-socket", socket, "login", "none", "-n", "default")
	if Code(err) != 1 || !Silent(err) || errs != "secret \"none\" not found in namespace default\n" {
		t.Errorf("a missing one: %q %v", errs, err)
	}
}

func TestValidateObjects(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	object := "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData: {password: one}\n"
	write("a.yaml", object)
	write("b.yaml", good+"\n---\n"+object)
	out, errs, err := execute(t, "", "validate", dir)
	if err != nil || errs != "" || out != "1 pod and 1 other object in 2 files: valid\n" {
		t.Errorf("%q %q %v", out, errs, err)
	}
	write("c.yaml", strings.Replace(object, "one", "two", 1))
	_, errs, err = execute(t, "", "validate", dir)
	if Code(err) != 1 || strings.Count(errs, "\n") != 1 ||
		!strings.Contains(errs, "c.yaml: Secret default/a: metadata.name: already declared with different contents in "+
			filepath.Join(dir, "a.yaml")) {
		t.Errorf("%q %v", errs, err)
	}
	if out, _, _ := execute(t, "", "validate", "-o", "yaml", filepath.Join(dir, "b.yaml")); strings.Contains(out, "one") ||
		!strings.Contains(out, "kind: Pod") {
		t.Errorf("printed %q", out)
	}
}
