package volume

import (
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/sys/mountinfo"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/manifest"
)

func pod(uid types.UID, volumes ...v1.Volume) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: uid}}
	p.Spec.Containers = []v1.Container{{Name: "app"}}
	p.Spec.Volumes = volumes
	for _, v := range volumes {
		p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts,
			v1.VolumeMount{Name: v.Name, MountPath: "/" + v.Name})
	}
	return p
}

func emptyDir(name string) v1.Volume {
	return v1.Volume{Name: name, VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}
}

func hostPath(path string, kind v1.HostPathType) v1.Volume {
	return v1.Volume{Name: "h", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: path, Type: &kind}}}
}

// fixed holds the objects of a test by name, for any namespace.
type fixed struct {
	configMaps map[string]*v1.ConfigMap
	secrets    map[string]*v1.Secret
	claims     map[string]*v1.PersistentVolumeClaim
	volumes    []*v1.PersistentVolume
	classes    []*storagev1.StorageClass
}

func (f fixed) ConfigMap(_, name string) (*v1.ConfigMap, bool) {
	found := f.configMaps[name]
	return found, found != nil
}

func (f fixed) Secret(_, name string) (*v1.Secret, bool) {
	found := f.secrets[name]
	return found, found != nil
}

func (f fixed) Claim(_, name string) (*v1.PersistentVolumeClaim, bool) {
	found := f.claims[name]
	return found, found != nil
}

func (f fixed) Claims() []*v1.PersistentVolumeClaim       { return slices.Collect(maps.Values(f.claims)) }
func (f fixed) Volumes() []*v1.PersistentVolume           { return f.volumes }
func (f fixed) StorageClasses() []*storagev1.StorageClass { return f.classes }

func (f fixed) Missing(manifest.ObjectRef) (what, remedy string) {
	return "is in no manifest", "add it to the manifests"
}

// setUp sets up the volumes of a pod and returns their paths.
func setUp(t *testing.T, v *Volumes, p *v1.Pod, objects fixed) (map[string]string, error) {
	t.Helper()
	result, err := v.Setup(t.Context(), &Request{Pod: p, Objects: objects})
	paths := map[string]string{}
	for name, m := range result.Volumes {
		paths[name] = m.Path
	}
	return paths, err
}

func permissions(t *testing.T, path string) fs.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

func TestEmptyDir(t *testing.T) {
	v := &Volumes{Root: filepath.Join(t.TempDir(), "pods")}
	p := pod("u1", emptyDir("cache"), emptyDir("unused"))
	p.Spec.Containers[0].VolumeMounts = p.Spec.Containers[0].VolumeMounts[:1]
	paths, err := setUp(t, v, p, fixed{})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(v.Root, "u1/volumes/kubernetes.io~empty-dir/cache")
	if len(paths) != 1 || paths["cache"] != path {
		t.Fatalf("paths %v", paths)
	}
	if m := permissions(t, path); m != 0o777 {
		t.Errorf("mode %o, want 0777 whatever the umask", m)
	}
	if m := permissions(t, filepath.Join(v.Root, "u1")); m != 0o750 {
		t.Errorf("mode of the pod's directory %o", m)
	}
	// The content that the container has written stays.
	if err := os.Chmod(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(path, "data"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := setUp(t, v, p, fixed{}); err != nil {
		t.Fatal(err)
	}
	if m := permissions(t, path); m != 0o700 {
		t.Errorf("mode %o: Setup changed what the container had set", m)
	}
	if _, err := os.Stat(filepath.Join(path, "data")); err != nil {
		t.Error(err)
	}
	if err := v.Teardown(t.Context(), "u1"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(v.Root, "u1/volumes")); !os.IsNotExist(err) {
		t.Error("volumes are still there")
	}
	if err := v.Teardown(t.Context(), "u1"); err != nil {
		t.Errorf("second teardown: %v", err)
	}
}

func TestEmptyDirAfterACrashHalfway(t *testing.T) {
	v := &Volumes{Root: t.TempDir()}
	half := filepath.Join(v.Root, "u1/volumes/kubernetes.io~empty-dir/cache.new")
	if err := os.MkdirAll(half, 0o700); err != nil {
		t.Fatal(err)
	}
	paths, err := setUp(t, v, pod("u1", emptyDir("cache")), fixed{})
	if err != nil {
		t.Fatal(err)
	}
	if m := permissions(t, paths["cache"]); m != 0o777 {
		t.Errorf("mode %o", m)
	}
}

func TestHostPath(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "s")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	missing := filepath.Join(dir, "a/b")
	for _, c := range []struct {
		path string
		kind v1.HostPathType
		want string // part of the error, empty for none
	}{
		{"/nowhere/at/all", v1.HostPathUnset, ""},
		{dir, v1.HostPathDirectory, ""},
		{file, v1.HostPathDirectory, "is not a directory"},
		{missing, v1.HostPathDirectory, "does not exist"},
		{file, v1.HostPathFile, ""},
		{dir, v1.HostPathFile, "is not a file"},
		{missing, v1.HostPathFile, "does not exist"},
		{socket, v1.HostPathSocket, ""},
		{file, v1.HostPathSocket, "is not a socket"},
		{"/dev/null", v1.HostPathCharDev, ""},
		{file, v1.HostPathCharDev, "is not a character device"},
		{"/dev/null", v1.HostPathBlockDev, "is not a block device"},
		{missing, v1.HostPathFileOrCreate, "no such file"},
		{filepath.Join(dir, "made"), v1.HostPathFileOrCreate, ""},
		{dir, v1.HostPathFileOrCreate, "is not a file"},
		{missing, v1.HostPathDirectoryOrCreate, ""},
		{file, v1.HostPathDirectoryOrCreate, "is not a directory"},
		{dir + "/../x", v1.HostPathUnset, "must not contain \"..\""},
		{"relative", v1.HostPathUnset, "absolute"},
		{dir, "Sock", "unknown"},
	} {
		v := &Volumes{Root: t.TempDir()}
		paths, err := setUp(t, v, pod("u1", hostPath(c.path, c.kind)), fixed{})
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s %s: %v", c.kind, c.path, err)
		case c.want == "" && paths["h"] != c.path:
			t.Errorf("%s %s: path %s", c.kind, c.path, paths["h"])
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s %s: error %v, want %q", c.kind, c.path, err, c.want)
		}
	}
	if m := permissions(t, missing); m != 0o755 {
		t.Errorf("created directory has mode %o", m)
	}
	if m := permissions(t, filepath.Join(dir, "made")); m != 0o644 {
		t.Errorf("created file has mode %o", m)
	}
	if err := (&Volumes{Root: t.TempDir()}).Teardown(t.Context(), "u1"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(missing); err != nil {
		t.Error("teardown modified the target of a hostPath")
	}
}

func TestNothingIsDeletedAcrossAMountPoint(t *testing.T) {
	root := filepath.Join(t.TempDir(), "pods")
	if err := os.MkdirAll(root, 0o750); err != nil {
		t.Fatal(err)
	}
	// The root may be a symbolic link; the kernel reports paths without
	// links.
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(root, link); err != nil {
		t.Fatal(err)
	}
	v := &Volumes{Root: link}
	paths, err := setUp(t, v, pod("u1", emptyDir("cache")), fixed{})
	if err != nil {
		t.Fatal(err)
	}
	inside := filepath.Join(root, "u1/volumes/kubernetes.io~empty-dir/cache/sub dir")
	v.mounts = func() ([]*mountinfo.Info, error) {
		return []*mountinfo.Info{{Mountpoint: "/"}, {Mountpoint: root}, {Mountpoint: root + "/u11"}, {Mountpoint: inside}},
			nil
	}
	for name, remove := range map[string]func(types.UID) error{
		"Teardown": func(uid types.UID) error { return v.Teardown(t.Context(), uid) },
		"Remove":   func(uid types.UID) error { return v.Remove(t.Context(), uid) }} {
		if err := remove("u1"); err == nil || !strings.Contains(err.Error(), "umount "+inside) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(paths["cache"]); err != nil {
			t.Errorf("%s deleted in spite of a mount", name)
		}
	}
	v.mounts = func() ([]*mountinfo.Info, error) {
		return []*mountinfo.Info{{Mountpoint: "/"}, {Mountpoint: root}, {Mountpoint: root + "/u11"}}, nil
	}
	if err := v.Remove(t.Context(), "u1"); err != nil {
		t.Error(err)
	}
}

func TestNamesDoNotEscape(t *testing.T) {
	v := &Volumes{Root: t.TempDir()}
	for _, uid := range []types.UID{"", ".", "..", "../x", "a/b", "a\x00", types.UID(strings.Repeat("a", 64))} {
		if _, err := setUp(t, v, pod(uid), fixed{}); err == nil {
			t.Errorf("UID %q was accepted", uid)
		}
		if v.Teardown(t.Context(), uid) == nil || v.Remove(t.Context(), uid) == nil {
			t.Errorf("directory of UID %q was removed", uid)
		}
	}
	// Every UID that a manifest may have gets a directory.
	for _, uid := range []types.UID{"-", "-x", "0", "A-z", types.UID(strings.Repeat("a", 63))} {
		if _, err := v.PodDir(uid); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"", ".", "..", "a/b", "x.new"} {
		if _, err := setUp(t, v, pod("u1", emptyDir(name)), fixed{}); err == nil {
			t.Errorf("volume %q was accepted", name)
		}
	}
}

func TestOrphans(t *testing.T) {
	v := &Volumes{Root: filepath.Join(t.TempDir(), "pods")}
	if uids, unknown, err := v.Orphans(nil); err != nil || len(uids)+len(unknown) > 0 {
		t.Error(uids, unknown, err)
	}
	for _, name := range []string{"u1", "u2", "lost+found"} {
		if err := os.MkdirAll(filepath.Join(v.Root, name), 0o750); err != nil {
			t.Fatal(err)
		}
	}
	uids, unknown, err := v.Orphans(func(uid types.UID) bool { return uid == "u1" })
	if err != nil || !slices.Equal(uids, []types.UID{"u2"}) || !slices.Equal(unknown, []string{"lost+found"}) {
		t.Error(uids, unknown, err)
	}
}
