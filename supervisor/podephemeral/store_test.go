package podephemeral

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/statefile"
)

func named(names ...string) (list []v1.EphemeralContainer) {
	for _, name := range names {
		list = append(list,
			v1.EphemeralContainer{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: name, Image: "busybox"}})
	}
	return list
}

func namesOf(list []v1.EphemeralContainer) string {
	var names []string
	for i := range list {
		names = append(names, list[i].Name)
	}
	return strings.Join(names, " ")
}

func add(t *testing.T, s *Store, uid types.UID, names ...string) {
	t.Helper()
	err := s.Update(uid, func(present []v1.EphemeralContainer) ([]v1.EphemeralContainer, error) {
		return append(present[:len(present):len(present)], named(names...)...), nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, dir string, log *slog.Logger) *Store {
	t.Helper()
	s, err := Open(dir, statefile.Disk{}, log)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var silent = slog.New(slog.DiscardHandler)

// What was added is there after a restart of the daemon, and the pod of the source is not changed.
func TestStoreKeepsContainers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ephemeral")
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u1"}}
	s := open(t, dir, silent)
	if got := s.With(pod); got != pod {
		t.Error("a pod without ephemeral containers was copied")
	}
	add(t, s, "u1", "a")
	first := s.With(pod)
	if got := namesOf(first.Spec.EphemeralContainers); got != "a" || len(pod.Spec.EphemeralContainers) != 0 {
		t.Errorf("containers %q, in the pod of the source %v", got, pod.Spec.EphemeralContainers)
	}
	if s.With(pod) != first || s.With(first) != first {
		t.Error("another pointer for the same content")
	}
	add(t, s, "u1", "b")
	if second := s.With(pod); second == first || namesOf(second.Spec.EphemeralContainers) != "a b" {
		t.Errorf("after another was added: %q", namesOf(second.Spec.EphemeralContainers))
	}
	if namesOf(first.Spec.EphemeralContainers) != "a" {
		t.Error("a shared pod was modified")
	}
	again := open(t, dir, silent)
	if got := namesOf(again.With(pod).Spec.EphemeralContainers); got != "a b" || len(again.UIDs()) != 1 {
		t.Errorf("after a restart: %q, %v", got, again.UIDs())
	}
	if err := again.Remove("u1"); err != nil {
		t.Fatal(err)
	}
	if again.With(pod) != pod || len(open(t, dir, silent).UIDs()) != 0 {
		t.Error("removed containers are still there")
	}
}

func TestStoreRefuses(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, silent)
	add(t, s, "u1", "a")
	why := errors.New("not valid")
	if err := s.Update("u1", func([]v1.EphemeralContainer) ([]v1.EphemeralContainer, error) {
		return nil,
			why
	}); !errors.Is(err, why) {
		t.Errorf("error of the change: %v", err)
	}
	err := s.Update("u1", func([]v1.EphemeralContainer) ([]v1.EphemeralContainer, error) {
		return make([]v1.EphemeralContainer, Max+1), nil
	})
	if !errors.Is(err, ErrTooMany) {
		t.Errorf("too many: %v", err)
	}
	for _, uid := range []types.UID{"", "../x", ".hidden"} {
		if err := s.Update(uid, func([]v1.EphemeralContainer) ([]v1.EphemeralContainer, error) {
			return named("a"),
				nil
		}); err == nil {
			t.Errorf("UID %q was accepted", uid)
		}
	}
	// Nothing is kept that is not on the disk.
	if err := os.WriteFile(filepath.Join(t.TempDir(), "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	blocked := open(t, filepath.Join(dir, "sub"), silent)
	if err := os.WriteFile(filepath.Join(dir, "sub"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := blocked.Update("u2",
		func([]v1.EphemeralContainer) ([]v1.EphemeralContainer, error) { return named("a"), nil }); err == nil ||
		len(blocked.UIDs()) != 0 {
		t.Errorf("a record that could not be written: %v, %v", err, blocked.UIDs())
	}
	if got := namesOf(s.containersOf("u1")); got != "a" {
		t.Errorf("after refused changes: %q", got)
	}
}

func TestStoreIgnoresDamagedFiles(t *testing.T) {
	dir := t.TempDir()
	add(t, open(t, dir, silent), "good", "a")
	for name, text := range map[string]string{"torn.json": `{"version":1,"cont`, "new.json": `{"version":2}`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var log bytes.Buffer
	s := open(t, dir, slog.New(slog.NewTextHandler(&log, nil)))
	if got := s.UIDs(); len(got) != 1 || got[0] != "good" {
		t.Errorf("UIDs %v", got)
	}
	if text := log.String(); strings.Count(text, "ephemeral containers is damaged") != 2 ||
		!strings.Contains(text, "torn.json") || !strings.Contains(text, "version 2") {
		t.Errorf("log:\n%s", text)
	}
}

// A record that an earlier version wrote gives the same containers: they outlive an upgrade of the
// daemon. The file is not changed: a new form needs another version, which the daemon reads too.
func TestStoreReadsEarlierRecords(t *testing.T) {
	s := open(t, filepath.Join("testdata", "version1"), slog.New(slog.NewTextHandler(failingWriter{t}, nil)))
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "2f1c0a3e5b7d4f60a1b2c3d4e5f60718"}}
	got := s.With(pod).Spec.EphemeralContainers
	stdin := v1.EphemeralContainer{TargetContainerName: "main", EphemeralContainerCommon: v1.EphemeralContainerCommon{
		Name: "debugger-x7k2p", Image: "docker.io/library/busybox:1.36", Stdin: true, TTY: true,
		ImagePullPolicy: v1.PullIfNotPresent, TerminationMessagePath: "/dev/termination-log",
		TerminationMessagePolicy: v1.TerminationMessageReadFile,
	}}
	adding := v1.EphemeralContainer{EphemeralContainerCommon: v1.EphemeralContainerCommon{
		Name: "tools", Image: "docker.io/library/busybox:1.36", Command: []string{"sh", "-c", "sleep 1000"},
		Env:             []v1.EnvVar{{Name: "WORD", Value: "one"}},
		SecurityContext: &v1.SecurityContext{Capabilities: &v1.Capabilities{Add: []v1.Capability{"SYS_PTRACE"}}},
		ImagePullPolicy: v1.PullIfNotPresent, TerminationMessagePath: "/dev/termination-log",
		TerminationMessagePolicy: v1.TerminationMessageReadFile,
	}}
	if want := []v1.EphemeralContainer{stdin, adding}; !equality.Semantic.DeepEqual(got, want) {
		t.Errorf("read\n%+v\nwant\n%+v", got, want)
	}
}

// failingWriter fails the test with what is written: a record that cannot be read is in the log only.
type failingWriter struct{ t *testing.T }

func (w failingWriter) Write(p []byte) (int, error) {
	w.t.Errorf("log: %s", p)
	return len(p), nil
}
