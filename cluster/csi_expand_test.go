package cluster

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podstead/podstead/internal/csivolume"
	"github.com/podstead/podstead/internal/wakeup"
)

func storageOf(size string) v1.ResourceList {
	return v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)}
}

// expandHarness has a pod with a bound volume of a driver that expands.
type expandHarness struct {
	*objectsHarness
	s   *storageFake
	pod *v1.Pod
}

func newExpandHarness(t *testing.T) *expandHarness {
	r := &expandHarness{objectsHarness: newObjectsHarness(t), s: &storageFake{changed: wakeup.NewSignal()}}
	r.s.drivers = []csivolume.NodeDriver{{Name: testDriver, NodeID: "1", Expands: true}}
	r.a.cfg.Storage = r.s
	r.size("1Gi", "1Gi", "")
	return r
}

func (r *expandHarness) begin() {
	r.t.Helper()
	r.start()
	r.pod = r.objectsHarness.pod("db", claimVolume("data"))
	pass(time.Minute)
	r.requests()
}

// size sets the capacities of the volume and of the claim's status, and the status of the expansion.
func (r *expandHarness) size(volume, claim string, status v1.ClaimResourceStatus) {
	r.t.Helper()
	bound := r.putClaim("data", "pv", v1.ClaimBound, func(c *v1.PersistentVolumeClaim) {
		c.Status.Capacity = storageOf(claim)
		c.Status.Conditions = []v1.PersistentVolumeClaimCondition{{Type: v1.PersistentVolumeClaimFileSystemResizePending,
			Status: v1.ConditionTrue}, {Type: "Own", Status: v1.ConditionTrue}}
		if status != "" {
			c.Status.AllocatedResources = storageOf(volume)
			c.Status.AllocatedResourceStatuses = map[v1.ResourceName]v1.ClaimResourceStatus{v1.ResourceStorage: status}
		}
	})
	r.putVolume("pv", bound, func(v *v1.PersistentVolume) {
		v.Spec.Capacity = storageOf(volume)
		v.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{
			CSI: &v1.CSIPersistentVolumeSource{Driver: testDriver, VolumeHandle: "vol-1"}}
	})
}

// status is what the claim reports: capacity, status of the expansion and conditions.
func (r *expandHarness) status() string {
	r.t.Helper()
	claim := &v1.PersistentVolumeClaim{}
	if !r.get(r.t, "persistentvolumeclaims", "default", "data", claim) {
		return "no claim"
	}
	var conditions []string
	for _, c := range claim.Status.Conditions {
		conditions = append(conditions, fmt.Sprint(c.Type, c.Message))
	}
	return fmt.Sprint(claim.Status.Capacity.Storage(), " ", claim.Status.AllocatedResourceStatuses[v1.ResourceStorage],
		" ", conditions)
}

func (r *expandHarness) mustBe(want string, expand int64) {
	r.t.Helper()
	synctest.Wait()
	if got, bytes := r.status(), r.o.CSIExpansion(r.pod, &r.pod.Spec.Volumes[0]); got != want || bytes != expand {
		r.t.Errorf("the claim says %q, to expand to %d; want %q, %d", got, bytes, want, expand)
	}
}

func (r *expandHarness) ended(bytes int64, failure error) {
	r.o.CSIExpanded(r.pod, &r.pod.Spec.Volumes[0], bytes, failure)
	synctest.Wait()
}

const gi = 1 << 30

// A controller expands the volume while a pod uses it: the node notices that, and writes to the claim that it
// expands it and that it has done so.
func TestVolumeIsExpandedInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newExpandHarness(t)
		r.begin()
		r.mustBe("1Gi  [FileSystemResizePending Own]", gi)
		r.ended(gi, nil)
		r.mustBe("1Gi  [FileSystemResizePending Own]", gi)
		before, _ := r.o.State(r.pod)
		r.wasNotified()

		// The controller is at work.
		r.size("1Gi", "1Gi", v1.PersistentVolumeClaimControllerResizeInProgress)
		pass(2 * time.Minute)
		r.mustBe("1Gi ControllerResizeInProgress [FileSystemResizePending Own]", 0)
		r.size("2Gi", "1Gi", v1.PersistentVolumeClaimNodeResizePending)
		pass(2 * time.Minute)
		r.mustBe("1Gi NodeResizeInProgress [FileSystemResizePending Own]", 2*gi)
		if now, _ := r.o.State(r.pod); now == before || !r.wasNotified() {
			t.Errorf("no notification: %q", now)
		}
		// An end of another size, and a failure that may pass, say nothing.
		r.ended(gi, nil)
		r.ended(2*gi, errors.New("busy"))
		r.mustBe("1Gi NodeResizeInProgress [FileSystemResizePending Own]", 2*gi)
		r.ended(2*gi, nil)
		r.mustBe("2Gi  [Own]", 2*gi)
		r.requests()
		r.ended(2*gi, nil)
		pass(time.Hour)
		verbs := r.askedFor("persistentvolumeclaims")
		if slices.Contains(verbs, http.MethodPatch) || len(verbs) < 30 || len(verbs) > 61 {
			t.Errorf("an hour without a change: %d requests, %v", len(verbs), verbs)
		}
		r.end()
	})
}

// Controllers of earlier versions have no status of the expansion.
func TestVolumeIsExpandedWithoutStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newExpandHarness(t)
		r.size("2Gi", "1Gi", "")
		r.begin()
		r.mustBe("1Gi  [FileSystemResizePending Own]", 2*gi)
		r.ended(2*gi, nil)
		r.mustBe("2Gi  [Own]", 2*gi)
		r.end()
	})
}

// An expansion that never succeeds is left to the controllers, which may let the node try again.
func TestInfeasibleExpansion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newExpandHarness(t)
		r.size("2Gi", "1Gi", v1.PersistentVolumeClaimNodeResizePending)
		r.begin()
		r.mustBe("1Gi NodeResizeInProgress [FileSystemResizePending Own]", 2*gi)
		r.ended(2*gi, fmt.Errorf("too large: %w", csivolume.ErrInfeasible))
		r.mustBe("1Gi NodeResizeInfeasible [FileSystemResizePending Own NodeResizeErrortoo large: the expansion is "+
			"infeasible]", 0)
		r.size("2Gi", "1Gi", v1.PersistentVolumeClaimNodeResizePending)
		pass(2 * time.Minute)
		r.mustBe("1Gi NodeResizeInProgress [FileSystemResizePending Own]", 2*gi)
		r.end()
	})
}

// What has ended is written once the API server takes it; a claim that changes meanwhile is read again.
func TestExpansionIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newExpandHarness(t)
		r.size("2Gi", "1Gi", v1.PersistentVolumeClaimNodeResizeInProgress)
		conflicts := 3
		r.react = func(q fakeRequest) (runtime.Object, error) {
			if q.resource == "persistentvolumeclaims" && q.verb == http.MethodPatch && conflicts > 0 {
				conflicts--
				return nil, apierrors.NewConflict(schema.GroupResource{Resource: q.resource}, q.name, errors.New("changed"))
			}
			return nil, nil
		}
		r.begin()
		r.setAway(true)
		r.ended(2*gi, nil)
		pass(time.Hour)
		r.mustBe("1Gi NodeResizeInProgress [FileSystemResizePending Own]", 2*gi)
		r.setAway(false)
		pass(5 * time.Minute)
		r.mustBe("2Gi  [Own]", 2*gi)
		r.end()
	})
}

// A claim that was deleted, or replaced by another one, changes nothing for the pod that uses its volume.
func TestExpansionOfDeletedClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newExpandHarness(t)
		r.size("2Gi", "1Gi", v1.PersistentVolumeClaimNodeResizeInProgress)
		r.begin()
		r.remove("persistentvolumeclaims", "default", "data")
		r.ended(2*gi, nil)
		pass(time.Hour)
		r.mustBe("no claim", 2*gi)
		r.putClaim("data", "other", v1.ClaimBound, func(c *v1.PersistentVolumeClaim) { c.UID = "other" })
		r.ended(2*gi, nil)
		pass(time.Hour)
		if _, volume, err := r.o.BoundClaim(r.pod, &r.pod.Spec.Volumes[0]); err != nil || volume.Name != "pv" {
			t.Errorf("%v %v", volume, err)
		}
		r.mustBe("0  []", 2*gi)
		r.end()
	})
}

// A claim is not requested again for a driver that cannot expand volumes, or is not there.
func TestClaimOfDriverWithoutExpansion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newExpandHarness(t)
		r.s.drivers[0].Expands = false
		r.begin()
		pass(time.Hour)
		r.s.set(func() { r.s.drivers = nil })
		pass(time.Hour)
		if verbs := r.askedFor("persistentvolumeclaims"); len(verbs) != 0 {
			t.Errorf("%d requests", len(verbs))
		}
		r.end()
	})
}

// Another volume of the same name is not the one that a pod uses.
func TestExpansionOfReplacedVolume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newExpandHarness(t)
		r.begin()
		_, used, err := r.o.BoundClaim(r.pod, &r.pod.Spec.Volumes[0])
		if err != nil {
			t.Fatal(err)
		}
		r.remove("persistentvolumes", "", "pv")
		r.size("2Gi", "1Gi", v1.PersistentVolumeClaimNodeResizePending)
		pass(time.Hour)
		if _, volume, err := r.o.BoundClaim(r.pod, &r.pod.Spec.Volumes[0]); err != nil || volume.UID != used.UID {
			t.Errorf("the pod has volume %s, %v; it uses %s", volume.UID, err, used.UID)
		}
		r.mustBe("1Gi NodeResizePending [FileSystemResizePending Own]", gi)
		r.end()
	})
}

// A claim that waits to be deleted until its pods have ended is expanded like others, and stays closed for other pods.
func TestExpansionOfClaimBeingDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newExpandHarness(t)
		r.size("2Gi", "1Gi", v1.PersistentVolumeClaimNodeResizeInProgress)
		r.begin()
		claim := &v1.PersistentVolumeClaim{}
		r.get(t, "persistentvolumeclaims", "default", "data", claim)
		claim.DeletionTimestamp, claim.Finalizers = &metav1.Time{Time: time.Now()}, []string{"kubernetes.io/pvc-protection"}
		r.replace(t, claim)
		r.ended(2*gi, nil)
		pass(time.Minute)
		r.mustBe("2Gi  [Own]", 2*gi)
		if why := r.fault(r.pod); why != "" {
			t.Errorf("a pod that used the claim before it was deleted: %s", why)
		}
		r.end()
	})
}

// A claim is not marked as being expanded for a pod that only reads the volume, whose driver is not called.
func TestExpansionOfVolumeThatIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newExpandHarness(t)
		r.size("2Gi", "1Gi", v1.PersistentVolumeClaimNodeResizePending)
		r.start()
		volume := claimVolume("data")
		volume.PersistentVolumeClaim.ReadOnly = true
		r.pod = r.objectsHarness.pod("reader", volume)
		pass(5 * time.Minute)
		r.mustBe("1Gi NodeResizePending [FileSystemResizePending Own]", 2*gi)
		r.end()
	})
}
