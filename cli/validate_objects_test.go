package cli

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestValidateChecksOverFiles(t *testing.T) {
	t.Parallel()
	pod := func(name, more string) string {
		return "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name +
			"}\nspec:\n  containers:\n  - name: main\n    image: a:1\n" + more
	}
	const ports = "    ports: [{containerPort: 80, hostPort: 8080, hostIP: "
	dir := t.TempDir()
	a := write(t, filepath.Join(dir, "a.yaml"), pod("a", "    envFrom: [{configMapRef: {name: here}}, {configMapRef: "+
		"{name: gone}}, {secretRef: {name: maybe, optional: true}}]\n"+ports+
		"127.0.0.1}]\n  volumes: [{name: d, persistentVolumeClaim: {claimName: lost}}]\n"))
	write(t, filepath.Join(dir, "b.yaml"),
		pod("b", ports+"127.0.0.2}]\n")+"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: here}\n")
	c := write(t, filepath.Join(dir, "c.yaml"),
		pod("c", "    ports: [{containerPort: 80, hostPort: 8080}, {containerPort: 8080, hostPort: 8080, protocol: UDP}]\n"))
	_, errs, err := execute(t, "", "validate", dir)
	if err != nil {
		t.Errorf("a warning failed: %v", err)
	}
	want := []string{
		"warning: " + c + ": Pod default/c: needs port 8080 of the host (TCP on 0.0.0.0), which pod default/a in " + a +
			" needs too; ",
		"warning: " + a + ": Pod default/a: requires ConfigMap default/gone, which no given manifest declares; ",
		"warning: " + a + ": Pod default/a: requires PersistentVolumeClaim default/lost, which",
	}
	for _, w := range want {
		if !strings.Contains(errs, w) {
			t.Errorf("no %q in\n%s", w, errs)
		}
	}
	if n := strings.Count(errs, "\n"); n != len(want) {
		t.Errorf("%d lines, want %d:\n%s", n, len(want), errs)
	}
	// Of a single file, the other manifests are not known.
	if _, errs, _ := execute(t, "", "validate", a); errs != "" {
		t.Errorf("one file: %s", errs)
	}
}

// A claim of a class that nothing provides would wait. One without a class, or of one that has
// volumes, would not.
func TestValidateStorageClasses(t *testing.T) {
	t.Parallel()
	claim := func(name, class string) string {
		return "---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: " + name +
			"}\nspec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}" + class + "}\n"
	}
	dir := t.TempDir()
	a := write(t, filepath.Join(dir, "a.yaml"),
		claim("lost", ", storageClassName: sdd")+claim("here", ", storageClassName: ssd")+
			claim("usb", ", storageClassName: usb")+claim("plain", "")+claim("empty", ", storageClassName: ''"))
	write(t, filepath.Join(dir, "b.yaml"), "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: "+
		"ssd}\nprovisioner: podstead.io/directory\nparameters: {path: /mnt/ssd}\n---\n"+
		"apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: v}\nspec: {accessModes: [ReadWriteOnce], capacity: "+
		"{storage: 1Gi}, storageClassName: usb, hostPath: {path: /v}}\n")
	_, errs, err := execute(t, "", "validate", dir)
	want := "warning: " + a + ": PersistentVolumeClaim default/lost: spec.storageClassName: no given manifest declares " +
		"StorageClass sdd, or a PersistentVolume of it; "
	if err != nil || strings.Count(errs, "\n") != 1 || !strings.HasPrefix(errs, want) {
		t.Errorf("%v\n%s, want %s", err, errs, want)
	}
	if _, errs, _ := execute(t, "", "validate", a); errs != "" {
		t.Errorf("one file: %s", errs)
	}
}
