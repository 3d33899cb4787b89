package cluster

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

const testDriver = "disks.example.com"

// putDriver puts a CSIDriver object.
func (r *objectsHarness) putDriver(change func(*storagev1.CSIDriverSpec)) {
	r.t.Helper()
	driver := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: testDriver}}
	if change != nil {
		change(&driver.Spec)
	}
	r.replace(r.t, driver)
}

// bindCSI binds the claim "data" to a volume of the driver.
func (r *objectsHarness) bindCSI(change func(*v1.CSIPersistentVolumeSource)) {
	source := &v1.CSIPersistentVolumeSource{Driver: testDriver, VolumeHandle: "vol-1"}
	if change != nil {
		change(source)
	}
	r.putVolume("pv", r.putClaim("data", "pv", v1.ClaimBound, nil), func(v *v1.PersistentVolume) {
		v.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{CSI: source}
	})
}

// attachment returns what the driver gets to know, or what is awaited.
func (r *objectsHarness) attachment(pod *v1.Pod) string {
	_, volume, err := r.o.BoundClaim(pod, &pod.Spec.Volumes[0])
	if err != nil {
		return err.Error()
	}
	metadata, err := r.o.CSIAttachment(pod, volume)
	if err != nil {
		return err.Error()
	}
	text, _ := json.Marshal(metadata)
	return string(text)
}

// A volume is used after a controller has attached it, and what is awaited is said until then. It is not
// requested after that, and forgotten with the pod.
func TestAttachmentIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newObjectsHarness(t)
		r.start()
		pod := r.pod("db", claimVolume("data"))
		r.bindCSI(nil)
		pass(time.Minute)
		name := attachmentKey{driver: testDriver, handle: "vol-1"}.object("edge")
		store := func(change func(*storagev1.VolumeAttachment)) func() {
			return func() {
				va := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: name}}
				change(va)
				r.replace(t, va)
			}
		}
		for _, step := range []struct {
			do   func()
			want string
		}{
			{func() {}, "is not attached to this node yet: the cluster's controller creates VolumeAttachment " + name},
			{store(func(*storagev1.VolumeAttachment) {}), "waits for the driver's attacher"},
			{store(func(va *storagev1.VolumeAttachment) {
				va.Status.AttachError = &storagev1.VolumeError{Message: "the disk is in another zone"}
			}), "cannot be attached to this node: the disk is in another zone"},
			{store(func(va *storagev1.VolumeAttachment) {
				va.Status.Attached, va.DeletionTimestamp = true, &metav1.Time{Time: time.Now()}
			}), "is being detached"},
		} {
			step.do()
			pass(2 * time.Minute)
			if got := r.attachment(pod); !strings.Contains(got, step.want) {
				t.Errorf("got %q, want %q", got, step.want)
			}
		}
		before, awaited := r.o.State(pod)
		if len(awaited) > 0 {
			t.Errorf("awaited: %q", awaited)
		}
		r.wasNotified()
		store(func(va *storagev1.VolumeAttachment) {
			va.Status = storagev1.VolumeAttachmentStatus{Attached: true,
				AttachmentMetadata: map[string]string{"device": "/dev/sdx"}}
		})()
		pass(2 * time.Minute)
		if got := r.attachment(pod); got != `{"device":"/dev/sdx"}` {
			t.Errorf("attached: %s", got)
		}
		if now, _ := r.o.State(pod); now == before || !r.wasNotified() {
			t.Errorf("no notification: %q", now)
		}
		r.requests()
		r.setAway(true)
		pass(time.Hour)
		r.setAway(false)
		pass(time.Hour)
		if got := r.attachment(pod); got != `{"device":"/dev/sdx"}` || len(r.askedFor("volumeattachments")) != 0 {
			t.Errorf("an hour later: %s, %d requests", got, len(r.askedFor("volumeattachments")))
		}
		r.remove("pods", "default", "db")
		pass(time.Minute)
		if r.o.drivers.stop != nil || r.o.drivers.known != nil || len(r.o.attachments) != 0 || r.o.unbound.Load() != 0 {
			t.Errorf("without the pod: drivers %v, %d attachments, %d requested", r.o.drivers, len(r.o.attachments),
				r.o.unbound.Load())
		}
		r.end()
	})
}

// The object of a driver is followed; without it the API's defaults hold.
func TestDriverIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newObjectsHarness(t)
		r.start()
		if _, err := r.o.CSIDriver(testDriver); err == nil {
			t.Error("a driver that no pod uses is known")
		}
		r.bindCSI(nil)
		pod := r.pod("db", claimVolume("data"))
		pass(time.Minute)
		if d, err := r.o.CSIDriver(testDriver); err != nil || !d.Attach || !d.Persistent || d.Ephemeral || d.PodInfo {
			t.Errorf("without an object: %+v, %v", d, err)
		}
		no, yes, policy := false, true, storagev1.FileFSGroupPolicy
		before, _ := r.o.State(pod)
		r.putDriver(func(s *storagev1.CSIDriverSpec) {
			s.AttachRequired, s.PodInfoOnMount, s.RequiresRepublish, s.ServiceAccountTokenInSecrets, s.SELinuxMount = &no, &yes,
				&yes, &yes, &yes
			s.FSGroupPolicy, s.VolumeLifecycleModes = &policy,
				[]storagev1.VolumeLifecycleMode{storagev1.VolumeLifecycleEphemeral}
		})
		pass(time.Minute)
		d, err := r.o.CSIDriver(testDriver)
		if err != nil || d.Attach || d.Persistent || !d.Ephemeral || !d.PodInfo || !d.Republish || !d.TokensInSecrets ||
			!d.SELinuxMount || d.GroupPolicy != policy {
			t.Errorf("with an object: %+v, %v", d, err)
		}
		if now, _ := r.o.State(pod); now == before {
			t.Error("the revision did not change with the driver")
		}
		if len(r.o.attachments) != 0 {
			t.Error("a volume that needs no attachment is requested")
		}
		r.end()
	})
}

// Nothing of CSI is requested for a pod whose volumes are of other kinds, also those that are claimed.
func TestNothingIsRequestedWithoutCSI(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newObjectsHarness(t)
		r.start()
		r.putDriver(nil)
		r.putVolume("pv", r.putClaim("data", "pv", v1.ClaimBound, nil), nil)
		pod := r.pod("db", claimVolume("data"))
		pass(time.Hour)
		if _, _, err := r.o.BoundClaim(pod, &pod.Spec.Volumes[0]); err != nil {
			t.Error(err)
		}
		for _, resource := range []string{"csidrivers", "volumeattachments"} {
			if got := r.askedFor(resource); len(got) > 0 {
				t.Errorf("%s requested: %v", resource, got)
			}
		}
		r.end()
	})
}

// The secrets of a volume are watched in their own namespaces, and the tokens for a driver kept.
func TestSecretsAndTokensOfDrivers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newObjectsHarness(t)
		r.react = func(q fakeRequest) (runtime.Object, error) {
			if q.sub != "token" {
				return nil, nil
			}
			request := authenticationv1.TokenRequest{}
			err := json.Unmarshal(q.body, &request)
			request.Status.Token = "for " + strings.Join(request.Spec.Audiences, " ")
			return &request, err
		}
		r.start()
		no := false
		r.putDriver(func(s *storagev1.CSIDriverSpec) {
			s.AttachRequired, s.TokenRequests = &no, []storagev1.TokenRequest{{Audience: "vault"}, {Audience: ""}}
		})
		r.bindCSI(func(s *v1.CSIPersistentVolumeSource) {
			s.NodeStageSecretRef = &v1.SecretReference{Namespace: "storage", Name: "stage"}
			s.NodePublishSecretRef = &v1.SecretReference{Namespace: "storage", Name: "publish"}
			s.NodeExpandSecretRef = &v1.SecretReference{Namespace: "storage", Name: "expand"}
		})
		for _, name := range []string{"stage", "publish", "expand"} {
			r.replace(t, &v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "storage", Name: name},
				Data: map[string][]byte{"key": []byte(name)}})
		}
		pod := r.pod("db", claimVolume("data"))
		pass(time.Minute)
		for _, name := range []string{"stage", "publish", "expand"} {
			if secret, ok := r.o.Secret("storage", name); !ok || string(secret.Data["key"]) != name {
				t.Errorf("secret %s: %v %v", name, secret, ok)
			}
		}
		text, err := r.o.CSITokens(pod, []storagev1.TokenRequest{{Audience: "vault"}, {Audience: ""}})
		var tokens map[string]struct {
			Token   string
			Expires time.Time `json:"expirationTimestamp"`
		}
		if err == nil {
			err = json.Unmarshal([]byte(text), &tokens)
		}
		if err != nil || len(tokens) != 2 || tokens["vault"].Token != "for vault" || tokens[""].Token != "for " ||
			!tokens[""].Expires.After(time.Now()) {
			t.Errorf("tokens %q: %v", text, err)
		}
		r.remove("pods", "default", "db")
		pass(time.Minute)
		if _, ok := r.o.Secret("storage", "stage"); ok || len(r.o.tokens) != 0 {
			t.Errorf("without the pod the secret is there: %v, %d tokens", ok, len(r.o.tokens))
		}
		r.end()
	})
}

func inlineVolumes(n int) (volumes []v1.Volume) {
	for i := range n {
		volumes = append(volumes, v1.Volume{Name: fmt.Sprint("v", i),
			VolumeSource: v1.VolumeSource{CSI: &v1.CSIVolumeSource{Driver: fmt.Sprintf("d%d.example.com", i)}}})
	}
	return volumes
}

// However many drivers pods name, there is one watch of them, and a driver that appears later is noticed.
func TestDriversHaveOneWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newObjectsHarness(t)
		r.start()
		r.putDriver(nil)
		pod := r.pod("a", inlineVolumes(200)...)
		r.pod("b", inlineVolumes(200)...)
		pass(time.Minute)
		if got := fmt.Sprint(r.askedFor("csidrivers")); got != "[LIST WATCH]" {
			t.Errorf("requested: %s", got)
		}
		before, awaited := r.o.State(pod)
		if len(awaited) > 0 {
			t.Errorf("awaited: %q", awaited)
		}
		r.wasNotified()
		no := false
		r.replace(t, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "d199.example.com"},
			Spec: storagev1.CSIDriverSpec{AttachRequired: &no}})
		pass(time.Second)
		if now, _ := r.o.State(pod); now == before || !r.wasNotified() {
			t.Error("a driver that was installed later is not noticed")
		}
		if d, err := r.o.CSIDriver("d199.example.com"); err != nil || d.Attach {
			t.Errorf("the driver: %+v, %v", d, err)
		}
		if d, err := r.o.CSIDriver("d198.example.com"); err != nil || !d.Attach {
			t.Errorf("a driver without an object: %+v, %v", d, err)
		}
		r.end()
	})
}

// Drivers of inline volumes count as references: a pod that names too many is held.
func TestDriversCountAsReferences(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newObjectsHarness(t)
		r.o.maxReferences = 2 * maxPodReferences
		r.start()
		greedy := r.pod("greedy", inlineVolumes(maxPodReferences+1)...)
		if why := r.o.Held(greedy); !strings.Contains(why, "refers to 257") {
			t.Errorf("held: %q", why)
		}
		first := r.pod("first", inlineVolumes(maxPodReferences)...)
		if why := r.o.Held(first); why != "" {
			t.Errorf("held: %q", why)
		}
		other := inlineVolumes(maxPodReferences + 1)[maxPodReferences:]
		if second := r.pod("second", other...); !strings.Contains(r.o.Held(second), "half of what other namespaces leave") {
			t.Errorf("held: %q", r.o.Held(second))
		}
		r.end()
	})
}

// What a running pod names costs as much for each volume, however many there are.
func TestStateOfManyVolumes(t *testing.T) {
	o := NewObjects(referring)
	o.drivers.known = map[string]csiDriver{}
	cost := func(n int) time.Duration {
		pod := &v1.Pod{Spec: v1.PodSpec{Volumes: inlineVolumes(n)}}
		best := time.Hour
		for range 3 {
			began := time.Now()
			o.State(pod)
			best = min(best, time.Since(began))
		}
		return best
	}
	few, many := cost(1000), cost(24_000)
	if many > 24*8*few {
		t.Errorf("1,000 volumes took %v, 24,000 %v", few, many)
	}
}
