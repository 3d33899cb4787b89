package volume

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/moby/sys/mountinfo"
)

// hangingRemoval makes the deletion of one volume hang, as on a disk that does not respond, until resume is closed.
func (n *storageNode) hangingRemoval(hung string) (started, resume chan struct{}) {
	started, resume = make(chan struct{}), make(chan struct{})
	n.removeVolumeTree = func(dir string) error {
		if dir == hung {
			close(started)
			<-resume
		}
		return removeTree(dir)
	}
	return started, resume
}

// other adds a claim with a directory of its own.
func (n *storageNode) other() {
	none, claim := "", n.claim().DeepCopy()
	claim.Name, claim.Spec.StorageClassName = "other", &none
	n.objects.claims["other"] = claim
}

// While the volume of a claim is deleted, however long that takes, its pods do not start, and everything else goes on:
// pods with other claims, lists, and the deletion of other volumes.
func TestDeletionHoldsNoOtherClaim(t *testing.T) {
	for _, own := range []bool{false, true} {
		t.Run(fmt.Sprintf("own directory %v", own), func(t *testing.T) {
			n := newStorageNode(t)
			dir := n.disk + "/claims/apps/data"
			if own {
				n.objects.classes, n.claim().Spec.StorageClassName = nil, nil
				dir = filepath.Join(n.Claims, "apps/data")
			}
			n.mustUse("u1", dir)
			n.write(dir + "/file")
			n.teardown("u1")
			n.other()
			started, resume := n.hangingRemoval(dir)
			ended := make(chan error)
			go func() { ended <- n.RemoveClaim("apps", "data") }()
			<-started
			within(t, "a pod with another claim", func() {
				if _, err := setUp(t, n.Volumes, claimPod("u2", "other"), n.objects); err != nil {
					t.Error(err)
				}
			})
			within(t, "lists", func() {
				for _, err := range []error{second(n.ListClaims()), second(n.ListBindings())} {
					if err != nil {
						t.Error(err)
					}
				}
			})
			within(t, "a pod with the claim", func() { n.mustFail("u3", "is being deleted") })
			within(t, "the deletion of another volume", func() {
				n.teardown("u2")
				if err := n.RemoveClaim("apps", "other"); err != nil {
					t.Error(err)
				}
			})
			close(resume)
			if err := <-ended; err != nil {
				t.Error(err)
			}
			n.removeVolumeTree = nil
			n.mustUse("u3", dir)
			if _, err := os.Stat(dir + "/file"); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("a deleted file is back: %v", err)
			}
		})
	}
}

// within fails if what is done takes longer than a deletion that hangs would let it.
func within(t *testing.T, what string, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); do() }()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatalf("%s waits for the deletion of a volume", what)
	}
}

func second[T any](_ T, err error) error { return err }

// On a real disk, pods with other claims start while many files are deleted.
func TestDeletionOfManyFiles(t *testing.T) {
	n := newStorageNode(t)
	n.objects.classes, n.claim().Spec.StorageClassName = nil, nil
	dir := filepath.Join(n.Claims, "apps/data")
	n.mustUse("u1", dir)
	for i := range 20000 {
		f, err := os.Create(fmt.Sprintf("%s/%d", dir, i))
		if err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
	}
	n.teardown("u1")
	n.other()
	started, ended := make(chan struct{}), make(chan error, 1)
	n.removeVolumeTree = func(dir string) error { close(started); return removeTree(dir) }
	go func() { ended <- n.RemoveClaim("apps", "data") }()
	<-started
	ready := 0
	for {
		if _, err := setUp(t, n.Volumes, claimPod("u2", "other"), n.objects); err != nil {
			t.Fatal(err)
		}
		n.teardown("u2")
		select {
		case err := <-ended:
			if err != nil || ready == 0 {
				t.Errorf("%d pods started during the deletion, %v", ready, err)
			}
			return
		default:
			ready++
		}
	}
}

// A deletion that was killed goes on by itself, and until then no pod gets what is left of a directory of the claim's
// own.
func TestKilledDeletionOfOwnDirectory(t *testing.T) {
	n := newStorageNode(t)
	n.objects.classes, n.claim().Spec.StorageClassName = nil, nil
	dir := filepath.Join(n.Claims, "apps/data")
	n.mustUse("u1", dir)
	n.write(dir + "/one")
	n.write(dir + "/two")
	n.teardown("u1")
	n.removeVolumeTree = func(dir string) error { return errors.Join(os.Remove(dir+"/one"), errors.New("killed")) }
	if err := n.RemoveClaim("apps", "data"); err == nil {
		t.Fatal("the deletion was not killed")
	}
	n.restart()
	n.mustFail("u2", "is being deleted")
	claims, err := n.ListClaims()
	if err != nil || len(claims) != 1 || claims[0].Path != dir || claims[0].Volume != nil {
		t.Errorf("%+v %v", claims, err)
	}
	if count, err := n.reclaim("data"); count != 1 || err != nil {
		t.Error(count, err)
	}
	n.mustUse("u2", dir)
	if left := listed(t, dir); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// Below the path of a class no link of a disk is followed: neither for a pod, nor for what deletes a volume.
func TestLinksBelowAClass(t *testing.T) {
	for what, link := range map[string]string{"namespace": "apps", "claim": "apps/data"} {
		t.Run(what, func(t *testing.T) {
			n := newStorageNode(t)
			outside, dir := t.TempDir(), n.disk+"/claims/apps/data"
			target := outside
			if what == "namespace" {
				target = filepath.Join(outside, "data")
				if err := os.Mkdir(target, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			n.write(target + "/file")
			at := filepath.Join(n.disk, "claims", link)
			if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.Symlink(outside, at)); err != nil {
				t.Fatal(err)
			}
			n.mustFail("u1", at+" is no directory", "no symbolic links are followed")
			if m := permissions(t, target); m != 0o700 && what == "namespace" {
				t.Errorf("mode %o", m)
			}
			// A disk with links takes the place of one without.
			if err := os.Remove(at); err != nil {
				t.Fatal(err)
			}
			n.mustUse("u1", dir)
			if err := errors.Join(os.RemoveAll(at), os.Symlink(outside, at)); err != nil {
				t.Fatal(err)
			}
			n.mustFail("u1", at+" is no directory")
			n.teardown("u1")
			err := n.RemoveClaim("apps", "data")
			if what == "namespace" && (err == nil || !strings.Contains(err.Error(), "no symbolic links are followed")) {
				t.Errorf("removed through a link: %v", err)
			}
			if what == "claim" && err != nil {
				t.Errorf("the link is not removed: %v", err)
			}
			n.mustHave(target + "/file")
		})
	}
}

// A volume in which something is mounted is not deleted, also not in part, and stays in use.
func TestDeletionWithAMount(t *testing.T) {
	n := newStorageNode(t)
	dir := n.disk + "/claims/apps/data"
	n.mustUse("u1", dir)
	n.write(dir + "/file")
	n.teardown("u1")
	mounts := n.mounts
	n.mounts = func() ([]*mountinfo.Info, error) {
		list, err := mounts()
		return append(list, &mountinfo.Info{Mountpoint: dir + "/backup"}), err
	}
	if err := n.RemoveClaim("apps", "data"); err == nil || !strings.Contains(err.Error(), dir+"/backup is still mounted") {
		t.Error(err)
	}
	n.mounts = mounts
	n.mustUse("u1", dir)
	n.mustHave(dir + "/file")
}
