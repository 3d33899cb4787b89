package cluster

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
)

func claimVolume(claim string) v1.Volume {
	return v1.Volume{Name: "data",
		VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}
}

// putClaim puts a claim with a phase, and returns it as the API server has it.
func (r *objectsHarness) putClaim(name, volume string, phase v1.PersistentVolumeClaimPhase,
	change func(*v1.PersistentVolumeClaim)) *v1.PersistentVolumeClaim {
	r.t.Helper()
	claim := &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"a": "b"}},
		Spec: v1.PersistentVolumeClaimSpec{AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			VolumeName: volume},
		Status: v1.PersistentVolumeClaimStatus{Phase: phase},
	}
	if change != nil {
		change(claim)
	}
	r.replace(r.t, claim)
	if !r.get(r.t, "persistentvolumeclaims", "default", name, claim) {
		r.t.Fatal("the claim is not there")
	}
	return claim
}

// putVolume puts a volume that is bound to a claim, nil is none.
func (r *objectsHarness) putVolume(name string, claim *v1.PersistentVolumeClaim, change func(*v1.PersistentVolume)) {
	r.t.Helper()
	volume := &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PersistentVolumeSpec{
			PersistentVolumeSource: v1.PersistentVolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/" + name}}},
	}
	if claim != nil {
		volume.Spec.ClaimRef = &v1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
	}
	if change != nil {
		change(volume)
	}
	r.replace(r.t, volume)
}

// fault returns why a pod cannot start to use its first volume, empty if it can.
func (r *objectsHarness) fault(pod *v1.Pod) string {
	_, volume, err := r.o.BoundClaim(pod, &pod.Spec.Volumes[0])
	switch {
	case err != nil:
		return err.Error()
	case volume == nil:
		return "no volume and no error"
	}
	return ""
}

// A claim is requested by name until the cluster has bound it to a volume that names it, and not
// after that. What the pod waits for is reported, and a notification is sent when it is bound.
func TestClaimIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newObjectsHarness(t)
		r.start()
		pod := r.pod("db", claimVolume("data"))
		steps := []struct {
			do   func()
			want string
		}{
			{func() {}, "does not exist in the cluster"},
			{func() { r.putClaim("data", "", v1.ClaimPending, nil) },
				"is not bound to a PersistentVolume in the cluster; kubectl -n default describe pvc data says why"},
			{func() { r.putClaim("data", "pv", v1.ClaimPending, nil) }, "is not bound"},
			{func() { r.putClaim("data", "pv", v1.ClaimLost, nil) }, "has lost its PersistentVolume pv"},
			{func() { r.putClaim("data", "pv", v1.ClaimBound, nil) }, "PersistentVolume pv cannot be read"},
			{func() { r.putVolume("pv", nil, nil) }, "PersistentVolume pv is bound to no claim"},
			{func() {
				r.putVolume("pv", &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data"}}, nil)
			}, "PersistentVolume pv is bound to the claim shop/data"},
			{func() {
				r.putVolume("pv",
					&v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data", UID: "old"}}, nil)
			}, "of the same name with UID old"},
			{func() {
				claim := r.putClaim("data", "pv", v1.ClaimBound,
					func(c *v1.PersistentVolumeClaim) { c.DeletionTimestamp = &metav1.Time{Time: time.Now()} })
				r.putVolume("pv", claim, nil)
			}, "is being deleted"},
		}
		for _, step := range steps {
			step.do()
			pass(time.Minute)
			if got := r.fault(pod); !strings.Contains(got, step.want) {
				t.Errorf("got %q, want %q", got, step.want)
			}
			if _, awaited := r.o.State(pod); len(awaited) > 0 {
				t.Errorf("%s: awaited %q", step.want, awaited)
			}
		}
		r.requests()
		pass(time.Hour)
		if n := len(r.askedFor("persistentvolumeclaims")); n > 700 {
			t.Errorf("%d requests in an hour", n)
		}
		before, _ := r.o.State(pod)
		r.wasNotified()
		claim := r.putClaim("data", "pv", v1.ClaimBound, nil)
		r.putVolume("pv", claim, func(v *v1.PersistentVolume) {
			v.Annotations = map[string]string{v1.MountOptionAnnotation: "nfsvers=4.2,noatime",
				podinfo.AnnotationVolumeGroup: "2345", "other": "x"}
		})
		pass(time.Minute)
		got, volume, err := r.o.BoundClaim(pod, &pod.Spec.Volumes[0])
		if err != nil || got.Name != "data" || got.UID != claim.UID || got.Labels != nil ||
			volume.Spec.HostPath.Path != "/pv" || len(volume.Spec.MountOptions) != 2 || len(volume.Annotations) != 1 ||
			volume.Annotations[podinfo.AnnotationVolumeGroup] != "2345" || volume.UID == "" {
			t.Errorf("%+v %+v %v", got, volume, err)
		}
		if now, _ := r.o.State(pod); now == before || !r.wasNotified() {
			t.Errorf("no notification: %q", now)
		}
		r.requests()
		pass(time.Hour)
		if n := len(r.askedFor("persistentvolumeclaims")) + len(r.askedFor("persistentvolumes")); n != 0 {
			t.Errorf("a bound claim is requested %d times", n)
		}
		// It is known while the API server is unreachable, and forgotten with the pod.
		r.setAway(true)
		pass(time.Hour)
		if why := r.fault(pod); why != "" {
			t.Errorf("while the API server is unreachable: %s", why)
		}
		r.setAway(false)
		pass(time.Minute)
		r.remove("pods", "default", "db")
		synctest.Wait()
		if why := r.fault(pod); why == "" || len(r.o.claims) != 0 || r.o.unbound.Load() != 0 {
			t.Errorf("without the pod: %q, %d claims", why, len(r.o.claims))
		}
		r.end()
	})
}

// Each pod reads the claim itself: one of the same name may be another claim later.
func TestClaimOfTheNextPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newObjectsHarness(t)
		r.putVolume("one", r.putClaim("data", "one", v1.ClaimBound, nil), nil)
		r.start()
		first := r.pod("first", claimVolume("data"))
		if why := r.fault(first); why != "" {
			t.Error(why)
		}
		r.putVolume("two", r.putClaim("data", "two", v1.ClaimBound, func(c *v1.PersistentVolumeClaim) { c.UID = "other" }),
			nil)
		second := r.pod("second", claimVolume("data"))
		for pod, want := range map[*v1.Pod]string{first: "one", second: "two"} {
			if _, volume, err := r.o.BoundClaim(pod, &pod.Spec.Volumes[0]); err != nil || volume.Name != want {
				t.Errorf("%s has %v, %v; want %s", pod.Name, volume, err, want)
			}
		}
		r.end()
	})
}

// A claim that is being deleted can be used by a pod that has it, also if the daemon starts then.
func TestDeletedClaimOfARunningPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newObjectsHarness(t)
		deleted := func(c *v1.PersistentVolumeClaim) { c.DeletionTimestamp = &metav1.Time{Time: time.Now()} }
		r.putVolume("pv", r.putClaim("data", "pv", v1.ClaimBound, deleted), nil)
		r.start()
		pod := r.pod("db", claimVolume("data"))
		claim, volume, err := r.o.BoundClaim(pod, &pod.Spec.Volumes[0])
		if claim == nil || volume == nil || err == nil || !strings.Contains(err.Error(), "is being deleted") {
			t.Errorf("%v %v %v", claim, volume, err)
		}
		r.remove("persistentvolumeclaims", "default", "data")
		pass(time.Minute)
		if claim, volume, err = r.o.BoundClaim(pod, &pod.Spec.Volumes[0]); claim == nil || volume == nil || err == nil ||
			!strings.Contains(err.Error(), "does not exist") {
			t.Errorf("%v %v %v", claim, volume, err)
		}
		r.end()
	})
}

// The claim of a generic ephemeral volume must be the pod's own.
func TestEphemeralClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newObjectsHarness(t)
		r.start()
		pod := r.pod("web", v1.Volume{Name: "scratch",
			VolumeSource: v1.VolumeSource{
				Ephemeral: &v1.EphemeralVolumeSource{VolumeClaimTemplate: &v1.PersistentVolumeClaimTemplate{}}}})
		if got := r.fault(pod); !strings.Contains(got, "controller of ephemeral volumes creates it") {
			t.Error(got)
		}
		yes := true
		ownedBy := func(uid types.UID) func(*v1.PersistentVolumeClaim) {
			return func(c *v1.PersistentVolumeClaim) {
				c.OwnerReferences = []metav1.OwnerReference{
					{APIVersion: "v1", Kind: "Pod", Name: "web", UID: uid, Controller: &yes}}
			}
		}
		for _, change := range []func(*v1.PersistentVolumeClaim){nil, ownedBy("other")} {
			r.putVolume("pv", r.putClaim("web-scratch", "pv", v1.ClaimBound, change), nil)
			pass(time.Minute)
			if got := r.fault(pod); !strings.Contains(got, "was not created for the pod") {
				t.Errorf("the claim of another owner: %q", got)
			}
		}
		r.putVolume("pv", r.putClaim("web-scratch", "pv", v1.ClaimBound, ownedBy(pod.UID)), nil)
		pass(time.Minute)
		if got := r.fault(pod); got != "" {
			t.Error(got)
		}
		r.end()
	})
}

// The labels of the Node object decide whether a volume is for this node, and count when they change.
func TestVolumeOfAnotherNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newObjectsHarness(t)
		r.putVolume("pv", r.putClaim("data", "pv", v1.ClaimBound, nil), func(v *v1.PersistentVolume) {
			v.Spec.NodeAffinity = &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{
				{MatchExpressions: []v1.NodeSelectorRequirement{
					{Key: "rack", Operator: v1.NodeSelectorOpIn, Values: []string{"r2"}}}},
			}}}
		})
		r.start()
		pod := r.pod("db", claimVolume("data"))
		pass(time.Second)
		if got := r.fault(pod); !strings.Contains(got, "PersistentVolume pv is not for this node") ||
			!strings.Contains(got, "rack In r2") {
			t.Error(got)
		}
		node := &v1.Node{}
		if !r.get(t, "nodes", "", "edge", node) {
			t.Fatal("no node")
		}
		node.Labels["rack"] = "r2"
		r.replace(t, node)
		synctest.Wait()
		if got := r.fault(pod); got != "" {
			t.Error(got)
		}
		r.end()
	})
}

// A refusal of the API server is reported when it persists: the authorizer learns a little later of
// the pod. That of a volume reports what the authorizer goes by.
func TestClaimsThatAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newObjectsHarness(t)
		r.putVolume("pv", r.putClaim("data", "pv", v1.ClaimBound, nil), nil)
		var mu sync.Mutex
		refusals := 1
		r.react = func(q fakeRequest) (runtime.Object, error) {
			mu.Lock()
			defer mu.Unlock()
			if q.resource == "persistentvolumes" && refusals > 0 {
				refusals--
				return nil, apierrors.NewForbidden(schema.GroupResource{Resource: "persistentvolumes"}, "pv",
					errors.New("no relationship found"))
			}
			return nil, nil
		}
		r.start()
		pod := r.pod("late", claimVolume("data"))
		if _, awaited := r.o.State(pod); len(awaited) != 1 || awaited[0] != "PersistentVolumeClaim default/data" {
			t.Errorf("awaited %q", awaited)
		}
		pass(time.Second)
		if got := r.fault(pod); got != "" {
			t.Error(got)
		}
		mu.Lock()
		refusals = 1000
		mu.Unlock()
		other := r.pod("never", claimVolume("data"))
		pass(time.Minute)
		if got := r.fault(other); !strings.Contains(got, "unless its spec.claimRef names this claim") ||
			!strings.Contains(got, "no relationship found") {
			t.Error(got)
		}
		r.end()
	})
}

// Claims count for what a pod may refer to, and many that are not bound do not use up the rate limit.
func TestManyUnboundClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newObjectsHarness(t)
		r.start()
		claims := func(n int) (volumes []v1.Volume) {
			for i := range n {
				volumes = append(volumes, claimVolume("data-"+string(rune('a'+i/26))+string(rune('a'+i%26))))
			}
			return volumes
		}
		if why := r.o.Held(r.pod("greedy", claims(maxPodReferences+1)...)); !strings.Contains(why,
			"refers to 257 ConfigMaps, Secrets, claims, CSI drivers and tokens") {
			t.Errorf("held: %q", why)
		}
		r.pod("many", claims(maxPodReferences)...)
		pass(5 * time.Minute)
		r.requests()
		pass(5 * time.Minute)
		if n := len(r.askedFor("persistentvolumeclaims")); n < 5*60*3 || n > 5*60*6 {
			t.Errorf("%d requests in five minutes, want about %d", n, 5*60*4)
		}
		r.end()
	})
}

// A claim with the same access mode a hundred thousand times is kept with one.
func TestClaimsAreKeptSmall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newObjectsHarness(t)
		r.start()
		claim := r.putClaim("data", "pv", v1.ClaimBound, func(c *v1.PersistentVolumeClaim) {
			c.Spec.AccessModes = slices.Repeat([]v1.PersistentVolumeAccessMode{v1.ReadWriteMany, v1.ReadWriteOnce}, 50_000)
			c.Spec.Resources.Requests = v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
			for i := range 1000 {
				c.Spec.Resources.Requests[v1.ResourceName(fmt.Sprint("example.com/", i))] = resource.MustParse("1")
			}
		})
		r.putVolume("pv", claim, nil)
		pod := r.pod("db", claimVolume("data"))
		pass(time.Minute)
		got, volume, err := r.o.BoundClaim(pod, &pod.Spec.Volumes[0])
		if err != nil || fmt.Sprint(got.Spec.AccessModes) != "[ReadWriteMany ReadWriteOnce]" {
			t.Fatalf("%d access modes, %v", len(got.Spec.AccessModes), err)
		}
		if size := got.Spec.Resources.Requests[v1.ResourceStorage]; size.String() != "1Gi" {
			t.Errorf("requests %v", &size)
		}
		if size := claimMemory(got, volume); size > 8<<10 || r.o.space.used["default"] != size {
			t.Errorf("%d bytes are kept, %d counted", size, r.o.space.used["default"])
		}
		r.remove("pods", "default", "db")
		pass(time.Minute)
		if used := r.o.space.total; used != 0 {
			t.Errorf("%d bytes are counted without a pod", used)
		}
		r.end()
	})
}

// Claims share the space of the objects of their namespace: one without space is not kept, and is
// once there is some.
func TestClaimsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newObjectsHarness(t)
		r.o.space = newNamespaceShares(64 << 10)
		r.start()
		r.config("large", map[string]string{"x": strings.Repeat("x", 31<<10)}, nil)
		r.pod("full", configVolume("large"))
		pass(time.Second)
		r.putVolume("pv", r.putClaim("data", "pv", v1.ClaimBound, nil), nil)
		pod := r.pod("db", claimVolume("data"))
		pass(time.Minute)
		if why := r.fault(pod); !strings.Contains(why, "is not kept: ") {
			t.Errorf("got %q", why)
		}
		r.remove("pods", "default", "full")
		pass(5 * time.Minute)
		if why := r.fault(pod); why != "" {
			t.Errorf("with space: %q", why)
		}
		r.end()
	})
}
