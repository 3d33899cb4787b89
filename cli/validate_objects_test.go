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

// A subPath of a ConfigMap or Secret has to be one of its files, or a directory of them. Of an object that is not
// declared the files are not known.
func TestValidateSubPaths(t *testing.T) {
	t.Parallel()
	const objects = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: cm}\ndata: {a: '1'}\nbinaryData: {b: eA==}\n---\n" +
		"apiVersion: v1\nkind: Secret\nmetadata: {name: key}\nstringData: {tls: x}\n---\n"
	const waits, empty = "; the container waits for it", "; the container gets an empty directory in its place"
	for _, tt := range []struct{ volume, subPath, want string }{
		{"configMap: {name: cm}", "a", ""},
		{"configMap: {name: cm}", "./b", ""},
		{"configMap: {name: cm}", ".", ""},
		{"configMap: {name: cm}", "c", "ConfigMap default/cm; the volume has a, b" + waits},
		{"configMap: {name: cm}", "a/b", "ConfigMap default/cm; the volume has a, b" + waits},
		{"configMap: {name: cm, items: [{key: a, path: d/e}]}", "d/e", ""},
		{"configMap: {name: cm, items: [{key: a, path: d/e}]}", "d", ""},
		{"configMap: {name: cm, items: [{key: a, path: d/e}]}", "a", "ConfigMap default/cm; the volume has d/e" + waits},
		{"configMap: {name: cm, optional: true}", "c", "ConfigMap default/cm; the volume has a, b" + empty},
		{"configMap: {name: cm, optional: true, items: [{key: c, path: c}]}", "c",
			"ConfigMap default/cm; write the name of a file of the volume, or add the key" + empty},
		{"configMap: {name: elsewhere, optional: true}", "c", ""},
		{"secret: {secretName: key}", "tls", ""},
		{"secret: {secretName: key}", "tsl",
			"Secret default/key; write the name of a file of the volume, or add the key" + waits},
		{"projected: {sources: [{configMap: {name: cm}}, {secret: {name: key, items: [{key: tls, path: t}]}}]}", "t", ""},
		{"projected: {sources: [{configMap: {name: cm}}, {secret: {name: key, items: [{key: tls, path: t}]}}]}", "tls",
			"ConfigMap default/cm and Secret default/key; the volume has a, b, t" + waits},
		{"projected: {sources: [{configMap: {name: cm}}, {downwardAPI: {items: [{path: name, fieldRef: {fieldPath: " +
			"metadata.name}}]}}]}", "name", ""},
		{"projected: {sources: [{configMap: {name: cm}}, {configMap: {name: elsewhere, optional: true}}]}", "z", ""},
		{"emptyDir: {}", "c", ""},
	} {
		file := write(t, filepath.Join(t.TempDir(), "p.yaml"), objects+"apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"+
			"spec: {initContainers: [{name: i, image: a:1}], containers: [{name: c, image: a:1, volumeMounts: "+
			"[{name: v, mountPath: /v, subPath: "+tt.subPath+"}]}], volumes: [{name: v, "+tt.volume+"}]}\n")
		want := ""
		if tt.want != "" {
			want = "warning: " + file + ": Pod default/p: spec.containers[0].volumeMounts[0].subPath: \"" + tt.subPath +
				"\" is no file of volume \"v\", which is made from " + tt.want + "\n"
		}
		if _, errs, err := execute(t, "", "validate", file); err != nil || errs != want {
			t.Errorf("%s of %s: %v\n%swant\n%s", tt.subPath, tt.volume, err, errs, want)
		}
	}
}
