package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podstead/podstead/test/testbed"
)

// kubectl writes pods and other objects with each verb that has a meaning for them, into their
// manifests, with the current kubectl and the one of Debian.
func TestKubectlWrites(t *testing.T) {
	n := newNode(t, sharedRuntime(t, testbed.Containerd24))
	n.start()
	admin := newKubectl(n, "--role", "edit")
	for name, binary := range map[string]string{"web": testbed.Kubectl(), "old": testbed.DebianKubectl()} {
		k := *admin
		k.binary = binary
		k.writePods(name)
		k.writeObjects(name + "-site")
	}
	reader := newKubectl(n, "--role", "exec")
	if out, err := reader.run("create", "configmap", "x"); err == nil || !strings.Contains(out, "access class write") {
		t.Errorf("a writer without the right: %v, %s", err, out)
	}
	if out, err := reader.run("auth", "can-i", "delete", "pods"); err == nil || !strings.Contains(out, "no") {
		t.Errorf("can-i without the right: %v, %s", err, out)
	}
	admin.must([]string{"yes"}, "auth", "can-i", "patch", "secrets")
	admin.must([]string{"pods/exec", "[create delete get list patch update watch]", "[/healthz]"}, "auth", "can-i", "--list")
	admin.must([]string{"pods", "configmaps"}, "api-resources", "--verbs=create,patch,delete", "-o", "name")
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
func (k *kubectl) writePods(name string) {
	n, t := k.n, k.n.t
	t.Helper()
	full, file := n.PodName(name), filepath.Join(t.TempDir(), name+".yaml")
	write := func(word string) {
		if err := os.WriteFile(file, []byte("# kept\n"+sleepPod(name, word)), 0o600); err != nil {
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
	k.must([]string{"pod/" + full + " created"}, "create", "-f", file)
	n.awaitRevision(name, "one")
	if out, err := k.run("create", "-f", file); err == nil || !strings.Contains(out, "AlreadyExists") || !strings.Contains(out, name+".yaml") {
		t.Errorf("create again: %v, %s", err, out)
	}
	k.must([]string{"unchanged"}, "apply", "-f", file)
	write("two")
	if out, err := k.run("diff", "-f", file); err == nil || !strings.Contains(out, "two") || strings.Contains(out, "config.hash") {
		t.Errorf("diff: %v\n%s", err, out)
	}
	k.must([]string{"pod/" + name + " configured"}, "apply", "-f", file)
	n.awaitRevision(name, "two")
	k.must([]string{"pod/" + name + " patched"}, "patch", "pod", name, "-p", `{"spec":{"containers":[{"name":"main","env":[{"name":"WORD","value":"three"}]}]}}`)
	k.must([]string{"pod/" + full + " patched"}, "patch", "pod", full, "--type=json", "-p", `[{"op":"replace","path":"/spec/containers/0/env/0/value","value":"four"}]`)
	k.must([]string{"pod/" + full + " patched"}, "patch", "pod", full, "--type=merge", "-p", `{"metadata":{"labels":{"a":"b","c":"d"}}}`)
	k.must([]string{"pod/" + full + " labeled"}, "label", "pod", full, "a=e", "--overwrite")
	k.must([]string{"pod/" + full + " annotated"}, "annotate", "pod", full, "note=x")
	manifest("four", "a: e", "c: d", "note: x")
	n.awaitRevision(name, "four")
	k.must([]string{"image updated (server dry run)"}, "set", "image", "pod/"+full, "main=busybox:none", "--dry-run=server")
	k.must([]string{"image updated"}, "set", "image", "pod/"+full, "main=busybox:none")
	manifest("image: busybox:none")
	editor := *k
	editor.env = []string{"KUBE_EDITOR=sed -i 's|busybox:none|" + testbed.BusyboxImage + "|; s|value: four|value: five|'"}
	editor.must([]string{"pod/" + full + " edited"}, "edit", "pod", full)
	manifest("five", "note: x")
	n.awaitRevision(name, "five")
	if out, err := k.run("patch", "pod", full, "--type=merge", "-p", `{"spec":{"restartPolicy":"Sometimes"}}`); err == nil || !strings.Contains(out, "spec.restartPolicy") {
		t.Errorf("an invalid patch: %v, %s", err, out)
	}
	// What was read before another change is not written over it.
	stale, err := k.run("get", "pod", full, "-o", "yaml")
	if err != nil {
		t.Fatal(err)
	}
	k.must([]string{"annotated"}, "annotate", "pod", full, "note=later", "--overwrite")
	if err := os.WriteFile(file, []byte(strings.Replace(stale, "value: five", "value: stale", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := k.run("replace", "-f", file); err == nil || !strings.Contains(out, "Conflict") || !strings.Contains(out, "get") {
		t.Errorf("replace with what was read before: %v, %s", err, out)
	}
	manifest("five", "note: later")
	write("six")
	// kubectl replace sends the version that it has just read, and the status of the pod may change
	// after that.
	n.await("the pod is replaced", func() error {
		out, err := k.run("replace", "-f", file)
		if err != nil && !strings.Contains(out, "Conflict") {
			t.Fatalf("kubectl replace: %v, %s", err, out)
		}
		return err
	})
	n.awaitRevision(name, "six")
	n.awaitReady(name)
	k.must([]string{"condition met"}, "wait", "--for=condition=Ready", "pod/"+full, "--timeout=5m")
	k.must([]string{full, "1/1"}, "get", "pod", name)
	k.must([]string{"ManifestChanged", "configured in", "by podstead-edit through the API"}, "describe", "pod", full)
	if out, err := k.run("get", "pod", name+"x"); err == nil || !strings.Contains(out, "did you mean "+full) {
		t.Errorf("a misspelt name: %v, %s", err, out)
	}
	k.must([]string{"deleted"}, "delete", "-f", file)
	n.awaitGone(name)
	// The grace period of the client replaces that of the pod, which ignores the signal.
	if err := os.WriteFile(file, []byte(scriptPod(name, "x", 36000, "trap '' TERM; echo ready; while :; do sleep 1; done")), 0o600); err != nil {
		t.Fatal(err)
	}
	k.must([]string{"pod/" + full + " created"}, "apply", "-f", file)
	n.awaitReady(name)
	k.must([]string{"deleted"}, "delete", "pod", full, "--grace-period=2")
	n.awaitGone(name)
	k.must([]string{"pod/" + n.PodName("run-"+name) + " created"}, "run", "run-"+name, "--image="+testbed.BusyboxImage, "--image-pull-policy=IfNotPresent", "--", "sleep", "1000")
	n.awaitReady("run-" + name)
	k.must([]string{"deleted"}, "delete", "pod", "run-"+name, "--force", "--grace-period=0")
}

// writeObjects changes a ConfigMap, a Secret, a claim and a class of this name.
func (k *kubectl) writeObjects(name string) {
	t := k.n.t
	t.Helper()
	k.must([]string{"configmap/" + name + " created"}, "create", "configmap", name, "--from-literal=color=red")
	k.must([]string{"configmap/" + name + " patched"}, "patch", "configmap", name, "-p", `{"data":{"color":"blue"}}`)
	k.must([]string{"blue"}, "get", "configmap", name, "-o", "jsonpath={.data.color}")
	k.must([]string{"secret/" + name + " created"}, "create", "secret", "generic", name, "--from-literal=password=hunter2")
	k.must([]string{"aHVudGVyMg=="}, "get", "secret", name, "-o", "yaml")
	info, err := os.Stat(filepath.Join(k.n.Manifests, name+"-secret.yaml"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file of the Secret: %v, %v", info, err)
	}
	file := filepath.Join(t.TempDir(), "objects.yaml")
	write := func(size, value string) {
		if err := os.WriteFile(file, []byte("apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: "+name+"}\nspec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: "+size+"}}}\n---\n"+
			"apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: "+name+"}\nvalue: 1000\ndescription: "+value+"\n---\n"+
			"apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: "+name+", labels: {value: "+value+"}}\nspec: {accessModes: [ReadWriteOnce], capacity: {storage: "+size+"}, storageClassName: "+name+", hostPath: {path: /nowhere}}\n---\n"+
			"apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: "+name+", labels: {value: "+value+"}}\nprovisioner: kubernetes.io/no-provisioner\n---\n"+
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: "+name+"}\ndata: {color: \""+value+"\"}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("1Gi", "one")
	k.must([]string{"persistentvolumeclaim/" + name + " created", "priorityclass.scheduling.k8s.io/" + name + " created", "persistentvolume/" + name + " created", "storageclass.storage.k8s.io/" + name + " created", "configmap/" + name + " configured"}, "apply", "-f", file)
	write("2Gi", "two")
	k.must([]string{"persistentvolumeclaim/" + name + " configured", "priorityclass.scheduling.k8s.io/" + name + " configured", "persistentvolume/" + name + " configured", "storageclass.storage.k8s.io/" + name + " configured"}, "apply", "-f", file)
	k.must([]string{"Pending", "2Gi"}, "get", "pvc", name)
	k.must([]string{"Available", "2Gi", "RWO", "Retain"}, "get", "pv", name)
	k.must([]string{"kubernetes.io/no-provisioner", "WaitForFirstConsumer"}, "get", "sc", name)
	k.must([]string{"two"}, "get", "priorityclass", name, "-o", "jsonpath={.description}")
	k.must([]string{"labeled"}, "label", "pvc", name, "a=b")
	k.must([]string{"deleted"}, "delete", "pvc/"+name, "priorityclass/"+name, "pv/"+name, "sc/"+name)
	// A character that a YAML text must not have as it is.
	k.must([]string{"patched"}, "patch", "configmap", name, "--type=merge", "-p", `{"data":{"color":"a\u007fb"}}`)
	k.must([]string{"a\u007fb"}, "get", "configmap", name, "-o", "jsonpath={.data.color}")
	k.must([]string{"deleted"}, "delete", "configmap/"+name, "secret/"+name)
	if out, err := k.run("get", "configmap", name); err == nil || !strings.Contains(out, "not found") {
		t.Errorf("a deleted ConfigMap: %v, %s", err, out)
	}
}
