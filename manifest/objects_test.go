package manifest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/internal/statefile"
)

const objectsText = `apiVersion: v1
kind: ConfigMap
metadata:
  name: web
  namespace: shop
  creationTimestamp: null
  resourceVersion: "7"
  uid: 6b5f
  annotations: {kubectl.kubernetes.io/last-applied-configuration: "{}"}
data: {port: "8080"}
binaryData: {logo: AAEC}
---
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Secret
  metadata: {name: login}
  data: {user: YWRtaW4=, password: b2xk}
  stringData: {password: new}
- apiVersion: v1
  kind: PersistentVolumeClaim
  metadata: {name: data}
  spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
{"apiVersion":"scheduling.k8s.io/v1","kind":"PriorityClass","metadata":{"name":"high"},"value":1000}
---
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: kata}
handler: kata
overhead: {podFixed: {memory: 120Mi}}
`

func loadObjects(t *testing.T, text string) []Object {
	t.Helper()
	content, faults := NewLoader("Node1",
		ModeStrict).Load(LoadRequest{Source: SourceFile, Unit: "web.yaml", Data: []byte(text)})
	if len(faults) > 0 {
		t.Fatalf("%v in\n%s", faults, text)
	}
	return content.Objects
}

func TestLoadObjects(t *testing.T) {
	objects := loadObjects(t, objectsText+"---\n"+loaderPod)
	var refs []string
	for i := range objects {
		refs = append(refs, objects[i].Ref().String())
	}
	want := []string{"ConfigMap shop/web", "Secret default/login", "PersistentVolumeClaim default/data",
		"PriorityClass high", "RuntimeClass kata"}
	if !slices.Equal(refs, want) {
		t.Fatalf("objects are %q, want %q", refs, want)
	}
	if meta := objects[0].ConfigMap.ObjectMeta; meta.UID != "" || meta.ResourceVersion != "" || len(meta.Annotations) > 0 {
		t.Errorf("metadata is %+v", meta)
	}
	if data := objects[0].ConfigMap.BinaryData["logo"]; string(data) != "\x00\x01\x02" ||
		objects[0].ConfigMap.Data["port"] != "8080" {
		t.Errorf("ConfigMap is %+v", objects[0].ConfigMap)
	}
	secret := objects[1].Secret
	if secret.Type != v1.SecretTypeOpaque || string(secret.Data["password"]) != "new" ||
		string(secret.Data["user"]) != "admin" || secret.StringData != nil {
		t.Errorf("Secret is %+v", secret)
	}
	if claim := objects[2].Claim; claim.Spec.VolumeMode == nil || *claim.Spec.VolumeMode != v1.PersistentVolumeFilesystem {
		t.Errorf("claim is %+v", claim)
	}
	if class := objects[3].PriorityClass; class.Value != 1000 || class.PreemptionPolicy == nil {
		t.Errorf("class is %+v", class)
	}
	if class := objects[4].RuntimeClass; class.Handler != "kata" || class.Overhead == nil {
		t.Errorf("class is %+v", class)
	}
}

// No fault of a Secret contains its values.
func TestFaultsContainNoSecretValues(t *testing.T) {
	files, err := filepath.Glob("testdata/faults/secret*")
	if err != nil || len(files) < 4 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		for _, mode := range []Mode{ModeStrict, ModeWarn} {
			_, faults := loadFile(t, file, mode)
			for _, secret := range []string{"hunter2", "aHVudGVyMg", "8080", "2222"} {
				if text := faults.Error(); text == "" || strings.Contains(text, secret) {
					t.Errorf("%s: faults are %q", file, text)
				}
			}
		}
	}
}

func TestObjectSizeLimit(t *testing.T) {
	text := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: " + strings.Repeat("x", 1<<20) + "}\n"
	loadObjects(t, text)
	for _, text := range []string{
		text + "binaryData: {b: eA==}\n",
		strings.Replace(strings.Replace(text, "ConfigMap", "Secret", 1), "\ndata: {a: ", "\nstringData: {b: x, a: ", 1),
	} {
		_, faults := loadText(ModeStrict, text)
		if !faults.Fatal() || !strings.Contains(faults.Error(), "1 MiB (1048576 bytes) in total; it is ") {
			t.Errorf("faults are %v", faults)
		}
	}
}

func (b *configHarness) wantConfigMap(name, value string) string {
	b.t.Helper()
	configMap, ok := b.config.Objects().ConfigMap("default", name)
	switch {
	case ok != (value != ""):
		b.t.Fatalf("ConfigMap %s exists: %v, want %q", name, ok, value)
	case !ok:
		return ""
	case configMap.Data["value"] != value:
		b.t.Fatalf("ConfigMap %s contains %q, want %q", name, configMap.Data["value"], value)
	}
	return configMap.ResourceVersion
}

func woken(wake <-chan struct{}) bool {
	select {
	case <-wake:
		return true
	default:
		return false
	}
}

func TestObjectsFollowFiles(t *testing.T) {
	b := newConfigHarness(t)
	wake, _ := b.config.Objects().Subscribe()
	b.wantConfigMap("x", "")
	b.wantUpdates(b.deliver(SourceFile, "f", "cm x 1\na 1"), "ADD file a=1")
	first := b.wantConfigMap("x", "1")
	if !woken(wake) || first == "" {
		t.Errorf("not notified, or revision %q", first)
	}
	// Other bytes and another pod, but the same object.
	b.deliver(SourceFile, "f", "cm x 1\na 2")
	if again := b.wantConfigMap("x", "1"); woken(wake) || again != first {
		t.Errorf("an object that did not change notified a subscriber, or has revision %s after %s", again, first)
	}
	// An invalid file keeps its last good content, also across a restart.
	b.wantUpdates(b.deliver(SourceFile, "f", "broken"))
	b.wantConfigMap("x", "1")
	b.wantFault("is broken")
	if err := b.cp.Save(); err != nil {
		t.Fatal(err)
	}
	b.restart()
	if restored := b.wantConfigMap("x", "1"); restored != first {
		t.Errorf("revision is %s after a restart, was %s", restored, first)
	}
	b.deliver(SourceFile, "f", "broken")
	b.wantConfigMap("x", "1")
	wake, cancel := b.config.Objects().Subscribe()
	b.deliver(SourceFile, "f", "cm x 2\na 2")
	if changed := b.wantConfigMap("x", "2"); changed == first || !RevisionChanged(first, changed) || !woken(wake) {
		t.Errorf("revision is %s, was %s", changed, first)
	}
	b.deliver(SourceFile, "f", "a 2")
	b.wantConfigMap("x", "")
	if !woken(wake) {
		t.Error("no subscriber was notified of its removal")
	}
	cancel()
	b.deliver(SourceFile, "f", "cm x 3")
	if woken(wake) {
		t.Error("notified after the subscription ended")
	}
}

// The last accepted objects of a source are in effect before it responds.
func TestObjectsBeforeSourceAnswers(t *testing.T) {
	b := newConfigHarness(t)
	b.deliver(SourceHTTP, "u", "cm x 1")
	if err := b.cp.Save(); err != nil {
		t.Fatal(err)
	}
	b.restart()
	b.deliver(SourceFile, "f", "a 1")
	b.wantConfigMap("x", "1")
	b.deliver(SourceHTTP, "u", "empty")
	b.wantConfigMap("x", "")
}

func TestObjectNameConflict(t *testing.T) {
	b := newConfigHarness(t)
	b.deliver(SourceFile, "b", "cm x b\ncm same 1")
	b.deliver(SourceFile, "a", "cm x a\ncm same 1\nweb 1", "b", "cm x b\ncm same 1")
	b.wantConfigMap("x", "b")
	b.wantFault("a: ConfigMap default/x: metadata.name: ConfigMap default/x is declared with different contents in b, " +
		"which remains in effect; give this one another name")
	if faults := b.config.Faults(); len(faults) != 1 {
		t.Errorf("faults are %v", faults)
	}
	if text := b.config.FaultFor("file-web-1"); !strings.Contains(text, "declared with different contents in b") {
		t.Errorf("the pod's fault is %q", text)
	}
	// The first one stays first across a restart.
	if err := b.cp.Save(); err != nil {
		t.Fatal(err)
	}
	b.restart()
	b.deliver(SourceFile, "a", "cm x a", "b", "cm x b")
	b.wantConfigMap("x", "b")
	// A file takes precedence over a URL, even if it is added later.
	b.deliver(SourceFile)
	b.deliver(SourceHTTP, "u", "cm x u")
	b.wantConfigMap("x", "u")
	b.deliver(SourceFile, "a", "cm x a")
	b.wantConfigMap("x", "a")
	b.wantFault("u: ConfigMap default/x")
	b.deliver(SourceFile)
	b.wantConfigMap("x", "u")
	b.wantFault()
}

// A renamed file keeps its objects, also if it was edited at the same time.
func TestObjectsOfRenamedFile(t *testing.T) {
	b := newConfigHarness(t)
	b.deliver(SourceFile, "old", "cm x 1\ncm y 1")
	set := b.set(SourceFile, "new", "cm x 2", "old", "cm x 1\ncm y 1")
	set.Units[1].Missing = true
	b.send(set)
	b.wantConfigMap("x", "2")
	b.wantConfigMap("y", "1")
	b.wantFault()
	b.deliver(SourceFile, "new", "cm x 2")
	b.wantConfigMap("y", "")
}

// A unit that is rejected for the name of its pod keeps its objects as well.
func TestObjectsOfRejectedUnit(t *testing.T) {
	b := newConfigHarness(t)
	b.deliver(SourceFile, "a", "web 1", "b", "cm x 1")
	b.deliver(SourceFile, "a", "web 1", "b", "cm x 2\nweb 2")
	b.wantConfigMap("x", "1")
	b.wantFault("already declared in a")
}

func TestRevisionChangesWithContent(t *testing.T) {
	revision := func(key, kind string, edit func(*v1.ConfigMap)) string {
		object := Object{ConfigMap: &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"},
			Data: map[string]string{"k": "v"}}}
		edit(object.ConfigMap)
		if kind == KindSecret {
			object = Object{Secret: &v1.Secret{ObjectMeta: object.ConfigMap.ObjectMeta, StringData: object.ConfigMap.Data}}
		}
		return objectRevision(key, &object)
	}
	as := func(*v1.ConfigMap) {}
	first := revision("key", KindConfigMap, as)
	yes := true
	for what, edit := range map[string]func(*v1.ConfigMap){
		"labels":      func(c *v1.ConfigMap) { c.Labels = map[string]string{"a": "b"} },
		"annotations": func(c *v1.ConfigMap) { c.Annotations = map[string]string{"a": "b"} },
		"immutable":   func(c *v1.ConfigMap) { c.Immutable = &yes },
		"version":     func(c *v1.ConfigMap) { c.ResourceVersion = "1" },
	} {
		if got := revision("key", KindConfigMap, edit); got != first {
			t.Errorf("%s changed the revision", what)
		}
	}
	edited := revision("key", KindConfigMap, func(c *v1.ConfigMap) { c.Data["k"] = "w" })
	binary := revision("key", KindConfigMap, func(c *v1.ConfigMap) { c.BinaryData = map[string][]byte{"b": nil} })
	otherKey := revision("other", KindConfigMap, func(c *v1.ConfigMap) { c.Data["k"] = "w" })
	for _, other := range []string{edited, binary, revision("key", KindSecret, as)} {
		if !RevisionChanged(first, other) {
			t.Errorf("%s and %s count as the same content", first, other)
		}
	}
	if RevisionChanged(first, first) || RevisionChanged(first, otherKey) {
		t.Error("equal revisions, or those of two keys, count as a change")
	}
	if !RevisionChanged("", first) || !RevisionChanged(first, "") || RevisionChanged("", "") {
		t.Error("a missing object counts as unchanged")
	}
}

// Only root can read the checkpoint, whatever the mode of the directory was, and
// its values appear nowhere else.
func TestSecretsInTheCheckpoint(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "checkpoint")
	if err := os.Mkdir(directory, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(directory, "manifests.json")
	if err := os.WriteFile(path, []byte(`{"version":1,"sources":{},"claims":{}}`), 0o644); err != nil {
		t.Fatal(err)
	}
	log := &logLines{}
	cp, err := OpenCheckpoint(path, log.log(), statefile.Disk{})
	if err != nil {
		t.Fatal(err)
	}
	config := NewPodConfig(PodConfigOptions{Sources: []Source{SourceFile}, Checkpoint: cp, Log: log.log()})
	text := "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData: {password: hunter2}\n"
	content, faults := NewLoader("node", ModeStrict).Load(LoadRequest{Source: SourceFile, Unit: "f", Data: []byte(text)})
	config.Deliver(Set{Source: SourceFile,
		Units: []Unit{{Name: "f", Digest: Digest([]byte(text)), Content: content, Faults: faults}}})

	for file, mode := range map[string]os.FileMode{path: 0o600, directory: 0o700 | os.ModeDir} {
		if info, err := os.Stat(file); err != nil || info.Mode() != mode {
			t.Errorf("%s has mode %v (%v), want %v", file, info.Mode(), err, mode)
		}
	}
	again := NewPodConfig(PodConfigOptions{Sources: []Source{SourceFile}, Checkpoint: openTestCheckpoint(t, path),
		Log: log.log()})
	secret, ok := again.Objects().Secret("default", "a")
	if !ok || string(secret.Data["password"]) != "hunter2" {
		t.Errorf("read back %v", secret)
	}
	shown, err := json.Marshal([]any{again.Objects().List(), config.Snapshot(), config.Faults()})
	if err != nil {
		t.Fatal(err)
	}
	if all := string(shown) + strings.Join(log.lines, "\n"); strings.Contains(all, "hunter2") ||
		strings.Contains(all, "aHVudGVyMg") || strings.Contains(all, Digest([]byte(text))) ||
		!strings.Contains(all, "password") {
		t.Errorf("the view is %s", all)
	}
}
