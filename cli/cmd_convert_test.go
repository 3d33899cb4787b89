package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const convertedCompose = `services:
  db:
    image: postgres:17
    restart: always
    environment: {PASSWORD: "${CONVERT_TEST_PASSWORD:-x}"}
    ulimits: {nofile: 100}
    volumes: ["data:/data"]
  web:
    image: nginx
    restart: always
volumes: {data: }
`

// writeFile writes a file in a new directory and returns its path.
func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestConvertPrintsManifests(t *testing.T) {
	file := writeFile(t, "compose.yaml", convertedCompose)
	t.Setenv("CONVERT_TEST_PASSWORD", "of the environment")
	for _, arg := range []string{file, filepath.Dir(file)} {
		out, errs, err := execute(t, "", "convert", arg, "-n", "shop")
		if err != nil || !strings.Contains(errs, file+":6: services.db.ulimits: lost: ") {
			t.Errorf("%s: %v\n%s", arg, err, errs)
		}
		if strings.Count(out, "kind: Pod") != 2 || strings.Count(out, "namespace: shop") != 3 ||
			!strings.Contains(out, "value: of the environment") {
			t.Errorf("%s prints\n%s", arg, out)
		}
		if _, errs, err := execute(t, out, "validate", "-"); err != nil {
			t.Errorf("the result is not valid: %v\n%s", err, errs)
		}
	}
	out, _, err := execute(t, convertedCompose, "convert")
	if again, _, _ := execute(t, convertedCompose, "convert", "-", "--from", "compose"); err != nil || out == "" ||
		again != out {
		t.Errorf("standard input: %v\n%s\n%s", err, out, again)
	}
}

func TestConvertExitCodes(t *testing.T) {
	for name, c := range map[string]struct {
		input string
		args  []string
		code  int
		want  string
	}{
		"strict": {convertedCompose, []string{"--strict"}, ExitFailed, "1 thing would be lost (--strict)"},
		"an error": {"services: {web: {build: .}}\n", nil, ExitFailed,
			"-:1: services.web.build: the service has no image"},
		"no YAML":       {"a: [", nil, ExitFailed, "-:1: is not valid YAML"},
		"nothing":       {"", nil, ExitFailed, "nothing to convert"},
		"only left out": {"{apiVersion: v1, kind: Namespace, metadata: {name: x}}", nil, ExitFailed, "nothing to convert"},
		"kind":          {"", []string{"--from", "docker"}, ExitUsage, "compose, quadlet, kubernetes"},
		"no file":       {"", []string{"/does/not/exist"}, ExitFailed, "failed to read /does/not/exist"},
		"no files":      {"", []string{t.TempDir()}, ExitFailed, "has no Compose file"},
		"unit":          {"[Container]\nImage=x\nUser=me\n", nil, ExitFailed, "-:3: Container.User: the user"},
	} {
		out, errs, err := execute(t, c.input, append([]string{"convert"}, c.args...)...)
		text := errs
		if err != nil {
			text += err.Error()
		}
		if Code(err) != c.code || out != "" || !strings.Contains(text, c.want) {
			t.Errorf("%s: exit code %d, want %d and %q:\n%s%s", name, Code(err), c.code, c.want, out, text)
		}
	}
}

func TestConvertWritesAFileForEachPod(t *testing.T) {
	file := writeFile(t, "compose.yaml", convertedCompose)
	dir := filepath.Join(t.TempDir(), "manifests")
	for range 2 { // the same result again is no conflict
		out, errs, err := execute(t, "", "convert", file, "-o", dir)
		if err != nil || out != "" || !strings.Contains(errs, filepath.Join(dir, "db.yaml")+" written") {
			t.Fatalf("%v\n%s%s", err, out, errs)
		}
	}
	db, err := os.ReadFile(filepath.Join(dir, "db.yaml"))
	if err != nil || !strings.Contains(string(db), "kind: PersistentVolumeClaim") {
		t.Errorf("%v\n%s", err, db)
	}
	if info, err := os.Stat(filepath.Join(dir, "web.yaml")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	mine := filepath.Join(dir, "web.yaml")
	if err := os.WriteFile(mine, []byte("# edited\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err = execute(t, "", "convert", file, "-o", dir, "-n", "other")
	if err == nil || !strings.Contains(err.Error(), "exists with other content; nothing was written") {
		t.Errorf("a file that was edited: %v", err)
	}
	if now, err := os.ReadFile(filepath.Join(dir, "db.yaml")); err != nil || string(now) != string(db) {
		t.Errorf("db.yaml was written: %v\n%s", err, now)
	}
}

// Objects of a chart go into the file of the pod that refers to them, and manifests of a .kube unit
// are read once.
func TestConvertGroupsObjects(t *testing.T) {
	dir, out := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		"app.kube": "[Kube]\nYaml=app.yaml\n[Install]\nWantedBy=default.target\n",
		"app.yaml": "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {a: b}}\n---\n" +
			"{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: app}, spec: {template: {spec: {containers: [{name: a, " +
			"image: b, envFrom: [{configMapRef: {name: settings}}]}]}}}}\n---\n" +
			"{apiVersion: v1, kind: Secret, metadata: {name: unused}, stringData: {a: b}}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, errs, err := execute(t, "", "convert", dir, "-o", out); err != nil {
		t.Fatalf("%v\n%s", err, errs)
	}
	entries, err := os.ReadDir(out)
	if err != nil || len(entries) != 2 || entries[0].Name() != "app.yaml" || entries[1].Name() != "secret-unused.yaml" {
		t.Errorf("%v, %v", entries, err)
	}
	if app, err := os.ReadFile(filepath.Join(out, "app.yaml")); err != nil ||
		!strings.Contains(string(app), "name: settings\ndata:") {
		t.Errorf("%v\n%s", err, app)
	}
}
