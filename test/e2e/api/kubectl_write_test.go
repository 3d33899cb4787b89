package api

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// kubectl writes pods and other objects with each verb that has a meaning for them, into their
// manifests, with the current kubectl and the one of Debian.
func TestKubectlWrites(t *testing.T) {
	n := harness.NewNode(t, harness.SharedRuntime(t, testbed.Containerd24))
	n.MustStart()
	admin := harness.NewKubectl(n, "--role", "edit")
	for name, binary := range map[string]string{"web": testbed.Kubectl(), "old": testbed.DebianKubectl()} {
		k := *admin
		k.Binary = binary
		writePods(&k, name)
		writeObjects(&k, name+"-site")
	}
	reader := harness.NewKubectl(n, "--role", "exec")
	if out, err := reader.Run("create", "configmap", "x"); err == nil || !strings.Contains(out, "access class write") {
		t.Errorf("a writer without the right: %v, %s", err, out)
	}
	if out, err := reader.Run("auth", "can-i", "delete", "pods"); err == nil || !strings.Contains(out, "no") {
		t.Errorf("can-i without the right: %v, %s", err, out)
	}
	admin.Must([]string{"yes"}, "auth", "can-i", "patch", "secrets")
	admin.Must([]string{"pods/exec", "[create delete get list patch update watch]", "[/healthz]"}, "auth", "can-i",
		"--list")
	admin.Must([]string{"pods", "configmaps"}, "api-resources", "--verbs=create,patch,delete", "-o", "name")
	log, err := os.ReadFile(n.Log())
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"Audit", "user=podstead-edit", "method=PATCH", "method=DELETE"} {
		if !strings.Contains(string(log), word) {
			t.Errorf("no %q in the log", word)
		}
	}
}

// writePods changes a pod of this name.
func writePods(k *harness.Kubectl, name string) {
	n, t := k.Node, k.Node.T
	t.Helper()
	full, file := n.PodName(name), filepath.Join(t.TempDir(), name+".yaml")
	write := func(word string) {
		if err := os.WriteFile(file, []byte("# kept\n"+harness.SleepPod(name, word)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	manifest := func(words ...string) {
		t.Helper()
		data, err := os.ReadFile(filepath.Join(n.Manifests, name+".yaml"))
		for _, word := range words {
			if err != nil || !strings.Contains(string(data), word) {
				t.Errorf("no %q in the manifest: %v\n%s", word, err, data)
			}
		}
	}
	write("one")
	k.Must([]string{"pod/" + full + " created"}, "create", "-f", file)
	n.AwaitRevision(name, "one")
	if out, err := k.Run("create", "-f", file); err == nil || !strings.Contains(out, "AlreadyExists") ||
		!strings.Contains(out, name+".yaml") {
		t.Errorf("create again: %v, %s", err, out)
	}
	k.Must([]string{"unchanged"}, "apply", "-f", file)
	write("two")
	if out, err := k.Run("diff", "-f", file); err == nil || !strings.Contains(out, "two") ||
		strings.Contains(out, "config.hash") {
		t.Errorf("diff: %v\n%s", err, out)
	}
	k.Must([]string{"pod/" + name + " configured"}, "apply", "-f", file)
	n.AwaitRevision(name, "two")
	k.Must([]string{"pod/" + name + " patched"}, "patch", "pod", name, "-p",
		`{"spec":{"containers":[{"name":"main","env":[{"name":"WORD","value":"three"}]}]}}`)
	k.Must([]string{"pod/" + full + " patched"}, "patch", "pod", full, "--type=json", "-p",
		`[{"op":"replace","path":"/spec/containers/0/env/0/value","value":"four"}]`)
	k.Must([]string{"pod/" + full + " patched"}, "patch", "pod", full, "--type=merge", "-p",
		`{"metadata":{"labels":{"a":"b","c":"d"}}}`)
	k.Must([]string{"pod/" + full + " labeled"}, "label", "pod", full, "a=e", "--overwrite")
	k.Must([]string{"pod/" + full + " annotated"}, "annotate", "pod", full, "note=x")
	manifest("four", "a: e", "c: d", "note: x")
	n.AwaitRevision(name, "four")
	k.Must([]string{"image updated (server dry run)"}, "set", "image", "pod/"+full, "main=busybox:none",
		"--dry-run=server")
	k.Must([]string{"image updated"}, "set", "image", "pod/"+full, "main=busybox:none")
	manifest("image: busybox:none")
	editor := *k
	editor.Env = []string{"KUBE_EDITOR=sed -i 's|busybox:none|" + testbed.BusyboxImage + "|; s|value: four|value: five|'"}
	editor.Must([]string{"pod/" + full + " edited"}, "edit", "pod", full)
	manifest("five", "note: x")
	n.AwaitRevision(name, "five")
	if out, err := k.Run("patch", "pod", full, "--type=merge", "-p",
		`{"spec":{"restartPolicy":"Sometimes"}}`); err == nil || !strings.Contains(out, "spec.restartPolicy") {
		t.Errorf("an invalid patch: %v, %s", err, out)
	}
	// What was read before another change is not written over it.
	stale, err := k.Run("get", "pod", full, "-o", "yaml")
	if err != nil {
		t.Fatal(err)
	}
	k.Must([]string{"annotated"}, "annotate", "pod", full, "note=later", "--overwrite")
	if err := os.WriteFile(file, []byte(strings.Replace(stale, "value: five", "value: stale", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := k.Run("replace", "-f", file); err == nil || !strings.Contains(out, "Conflict") ||
		!strings.Contains(out, "get") {
		t.Errorf("replace with what was read before: %v, %s", err, out)
	}
	manifest("five", "note: later")
	write("six")
	// kubectl replace sends the version that it has just read, and the status of the pod may change
	// after that.
	n.Await("the pod is replaced", func() error {
		out, err := k.Run("replace", "-f", file)
		if err != nil && !strings.Contains(out, "Conflict") {
			t.Fatalf("kubectl replace: %v, %s", err, out)
		}
		return err
	})
	n.AwaitRevision(name, "six")
	n.AwaitReady(name)
	k.Must([]string{"condition met"}, "wait", "--for=condition=Ready", "pod/"+full, "--timeout=5m")
	k.Must([]string{full, "1/1"}, "get", "pod", name)
	k.Must([]string{"ManifestChanged", "configured in", "by podstead-edit through the API"}, "describe", "pod", full)
	if out, err := k.Run("get", "pod", name+"x"); err == nil || !strings.Contains(out, "did you mean "+full) {
		t.Errorf("a misspelt name: %v, %s", err, out)
	}
	k.Must([]string{"deleted"}, "delete", "-f", file)
	n.AwaitGone(name)
	// The grace period of the client replaces that of the pod, which ignores the signal.
	if err := os.WriteFile(file, []byte(harness.ScriptPod(name, "x", 36000, "trap '' TERM; echo ready; while :; do "+
		"sleep 1; done")), 0o600); err != nil {
		t.Fatal(err)
	}
	k.Must([]string{"pod/" + full + " created"}, "apply", "-f", file)
	n.AwaitReady(name)
	k.Must([]string{"deleted"}, "delete", "pod", full, "--grace-period=2")
	n.AwaitGone(name)
	k.Must([]string{"pod/" + n.PodName("run-"+name) + " created"}, "run", "run-"+name, "--image="+testbed.BusyboxImage,
		"--image-pull-policy=IfNotPresent", "--", "sleep", "1000")
	n.AwaitReady("run-" + name)
	k.Must([]string{"deleted"}, "delete", "pod", "run-"+name, "--force", "--grace-period=0")
}

// writeObjects changes a ConfigMap, a Secret, a claim and a class of this name.
func writeObjects(k *harness.Kubectl, name string) {
	t := k.Node.T
	t.Helper()
	k.Must([]string{"configmap/" + name + " created"}, "create", "configmap", name, "--from-literal=color=red")
	k.Must([]string{"configmap/" + name + " patched"}, "patch", "configmap", name, "-p", `{"data":{"color":"blue"}}`)
	k.Must([]string{"blue"}, "get", "configmap", name, "-o", "jsonpath={.data.color}")
	k.Must([]string{"secret/" + name + " created"}, "create", "secret", "generic", name, "--from-literal=password=hunter2")
	k.Must([]string{"aHVudGVyMg=="}, "get", "secret", name, "-o", "yaml")
	info, err := os.Stat(filepath.Join(k.Node.Manifests, name+"-secret.yaml"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file of the Secret: %v, %v", info, err)
	}
	file := filepath.Join(t.TempDir(), "objects.yaml")
	write := func(size, value string) {
		if err := os.WriteFile(file, []byte("apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: "+name+
			"}\nspec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: "+size+"}}}\n---\n"+
			"apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: "+name+"}\nvalue: 1000\ndescription: "+
			value+"\n---\n"+
			"apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: "+name+", labels: {value: "+value+
			"}}\nspec: {accessModes: [ReadWriteOnce], capacity: {storage: "+size+"}, storageClassName: "+name+
			", hostPath: {path: /nowhere}}\n---\n"+
			"apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: "+name+", labels: {value: "+value+
			"}}\nprovisioner: kubernetes.io/no-provisioner\n---\n"+
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: "+name+"}\ndata: {color: \""+value+"\"}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("1Gi", "one")
	k.Must([]string{"persistentvolumeclaim/" + name + " created", "priorityclass.scheduling.k8s.io/" + name + " created",
		"persistentvolume/" + name + " created", "storageclass.storage.k8s.io/" + name + " created",
		"configmap/" + name + " configured"}, "apply", "-f", file)
	write("2Gi", "two")
	k.Must([]string{"persistentvolumeclaim/" + name + " configured",
		"priorityclass.scheduling.k8s.io/" + name + " configured", "persistentvolume/" + name + " configured",
		"storageclass.storage.k8s.io/" + name + " configured"}, "apply", "-f", file)
	k.Must([]string{"Pending", "2Gi"}, "get", "pvc", name)
	k.Must([]string{"Available", "2Gi", "RWO", "Retain"}, "get", "pv", name)
	k.Must([]string{"kubernetes.io/no-provisioner", "WaitForFirstConsumer"}, "get", "sc", name)
	k.Must([]string{"two"}, "get", "priorityclass", name, "-o", "jsonpath={.description}")
	k.Must([]string{"labeled"}, "label", "pvc", name, "a=b")
	k.Must([]string{"deleted"}, "delete", "pvc/"+name, "priorityclass/"+name, "pv/"+name, "sc/"+name)
	// A character that a YAML text must not have as it is.
	k.Must([]string{"patched"}, "patch", "configmap", name, "--type=merge", "-p", `{"data":{"color":"a\u007fb"}}`)
	k.Must([]string{"a\u007fb"}, "get", "configmap", name, "-o", "jsonpath={.data.color}")
	k.Must([]string{"deleted"}, "delete", "configmap/"+name, "secret/"+name)
	if out, err := k.Run("get", "configmap", name); err == nil || !strings.Contains(out, "not found") {
		t.Errorf("a deleted ConfigMap: %v, %s", err, out)
	}
}
