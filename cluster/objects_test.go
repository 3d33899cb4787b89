package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podstead/podstead/manifest"
)

// referring returns the references of a test's pod: its volumes and runtime
// class.
func referring(pod *v1.Pod) (refs []manifest.ObjectRef) {
	for _, v := range pod.Spec.Volumes {
		if v.ConfigMap != nil {
			refs = append(refs, manifest.ObjectRef{Kind: manifest.KindConfigMap, Namespace: pod.Namespace,
				Name: v.ConfigMap.Name})
		}
		if v.Secret != nil {
			refs = append(refs, manifest.ObjectRef{Kind: manifest.KindSecret, Namespace: pod.Namespace,
				Name: v.Secret.SecretName})
		}
	}
	if class := pod.Spec.RuntimeClassName; class != nil {
		refs = append(refs, manifest.ObjectRef{Kind: manifest.KindRuntimeClass, Name: *class})
	}
	return refs
}

func configVolume(name string) v1.Volume {
	return v1.Volume{Name: name,
		VolumeSource: v1.VolumeSource{
			ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: name}}}}
}

func secretVolume(name string) v1.Volume {
	return v1.Volume{Name: name, VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: name}}}
}

func tokenVolume(audience string, seconds int64) v1.Volume {
	return v1.Volume{Name: "token",
		VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
			{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Audience: audience, ExpirationSeconds: &seconds}},
		}}}}
}

// objectsHarness is a clusterHarness whose adapter tracks objects.
type objectsHarness struct {
	*clusterHarness
	o        *Objects
	notified <-chan struct{}
}

func newObjectsHarness(t testing.TB) *objectsHarness {
	r := newClusterHarness(t)
	o := NewObjects(referring)
	r.a.cfg.Objects = o
	notified, _ := o.Subscribe()
	return &objectsHarness{r, o, notified}
}

// pod binds a pod with these volumes to the node, and returns it.
func (r *objectsHarness) pod(name string, volumes ...v1.Volume) *v1.Pod {
	r.t.Helper()
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: v1.PodSpec{NodeName: "edge", ServiceAccountName: "default", Volumes: volumes,
			Containers: []v1.Container{{Name: "main", Image: "i"}}},
	}
	r.replace(r.t, pod)
	if !r.get(r.t, "pods", "default", name, pod) {
		r.t.Fatal("the pod is not there")
	}
	synctest.Wait()
	return pod
}

func (r *objectsHarness) config(name string, data map[string]string, change func(*v1.ConfigMap)) {
	r.t.Helper()
	m := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Data: data}
	if change != nil {
		change(m)
	}
	r.replace(r.t, m)
	synctest.Wait()
}

// askedFor returns the requests for a resource since the last call.
func (r *objectsHarness) askedFor(resource string) (verbs []string) {
	for _, request := range r.requests() {
		if request.resource == resource {
			verbs = append(verbs, request.verb)
		}
	}
	return verbs
}

// wasNotified reports whether there was a notification since the last call.
func (r *objectsHarness) wasNotified() bool {
	synctest.Wait()
	select {
	case <-r.notified:
		return true
	default:
		return false
	}
}

func (r *objectsHarness) value(name, key string) string {
	if m, ok := r.o.ConfigMap("default", name); ok {
		return m.Data[key]
	}
	return "none"
}

// One object has one watch, from the first pod that refers to it to the last.
func TestObjectsAreWatchedOnceEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newObjectsHarness(t)
		r.config("conf", map[string]string{"a": "1"}, nil)
		r.start()
		if got := slices.Concat(r.askedFor("configmaps"), r.askedFor("services")); len(got) != 0 {
			t.Errorf("requested before there is a pod: %v", got)
		}
		one := r.pod("one", configVolume("conf"))
		r.pod("two", configVolume("conf"), secretVolume("none"))
		all := r.requests()
		for _, resource := range []string{"configmaps", "secrets", "services"} {
			var verbs []string
			for _, request := range all {
				if request.resource == resource {
					verbs = append(verbs, request.verb)
				}
			}
			if !slices.Equal(verbs, []string{"LIST", "WATCH"}) {
				t.Errorf("%s: %v", resource, verbs)
			}
		}
		if got := r.value("conf", "a"); got != "1" {
			t.Errorf("a is %q", got)
		}
		if _, awaited := r.o.State(one); len(awaited) != 0 {
			t.Errorf("awaited: %v", awaited)
		}
		before, _ := r.o.State(one)
		r.wasNotified()

		// A change of labels does not affect a pod; a change of data
		// does.
		r.config("conf", map[string]string{"a": "1"}, func(m *v1.ConfigMap) { m.Labels = map[string]string{"x": "y"} })
		if now, _ := r.o.State(one); r.wasNotified() || now != before {
			t.Errorf("a label notifies: %q, was %q", now, before)
		}
		r.config("conf", map[string]string{"a": "2"}, nil)
		if now, _ := r.o.State(one); !r.wasNotified() || now == before || r.value("conf", "a") != "2" {
			t.Errorf("data do not notify: %q", now)
		}

		// The objects stay while the API server is unreachable.
		r.setAway(true)
		pass(time.Hour)
		if r.value("conf", "a") != "2" {
			t.Error("it is forgotten")
		}
		r.setAway(false)
		pass(time.Minute)
		r.requests()

		// The last pod removes the object.
		r.remove("pods", "default", "one")
		synctest.Wait()
		r.config("conf", map[string]string{"a": "3"}, nil)
		if r.value("conf", "a") != "3" {
			t.Error("the second pod does not see a change")
		}
		r.remove("pods", "default", "two")
		synctest.Wait()
		if r.value("conf", "a") != "none" || len(r.o.entries) != 0 {
			t.Error("it is kept without a pod")
		}
		r.requests()
		pass(time.Hour)
		if got := r.askedFor("configmaps"); len(got) != 0 {
			t.Errorf("requested without a pod: %v", got)
		}
		r.end()
	})
}

// A missing object is awaited, and a notification is sent when it is created.
// An immutable object needs no watch.
func TestObjectsThatComeLaterOrNeverChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newObjectsHarness(t)
		yes := true
		r.config("fixed", map[string]string{"a": "1"}, func(m *v1.ConfigMap) { m.Immutable = &yes })
		r.start()
		pod := r.pod("one", configVolume("late"), configVolume("fixed"), secretVolume("login"))
		if _, awaited := r.o.State(pod); len(awaited) != 0 {
			t.Errorf("awaited: %v", awaited)
		}
		ref := manifest.ObjectRef{Kind: manifest.KindConfigMap, Namespace: "default", Name: "late"}
		if what, remedy := r.o.Missing(ref); what != "does not exist in the cluster" || remedy != "create it in the cluster" {
			t.Errorf("missing: %q, %q", what, remedy)
		}
		r.wasNotified()
		r.requests()
		pass(2 * time.Minute)
		if got := r.requests(); slices.ContainsFunc(got, func(q fakeRequest) bool { return q.resource == "configmaps" }) {
			t.Errorf("requested again: %v", got)
		}
		r.config("late", map[string]string{"a": "came"}, nil)
		if !r.wasNotified() || r.value("late", "a") != "came" {
			t.Error("it was created without a notification")
		}
		r.replace(t, &v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "login"},
			Data: map[string][]byte{"k": []byte("v")}})
		synctest.Wait()
		if s, ok := r.o.Secret("default", "login"); !ok || string(s.Data["k"]) != "v" {
			t.Errorf("Secret: %v", s)
		}
		// The immutable object is no longer watched.
		r.config("fixed", map[string]string{"a": "2"}, func(m *v1.ConfigMap) { m.Immutable = &yes })
		pass(time.Hour)
		if r.value("fixed", "a") != "1" {
			t.Error("an immutable object is watched")
		}
		r.end()
	})
}

// A rejected request is reported only when it persists, is not repeated in a
// hot loop, and the last known object stays in use.
func TestObjectsThatAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newObjectsHarness(t)
		r.config("conf", map[string]string{"a": "1"}, nil)
		refusals := 1
		var mu sync.Mutex
		r.react = func(q fakeRequest) (runtime.Object, error) {
			mu.Lock()
			defer mu.Unlock()
			if q.resource == "configmaps" && q.verb == "LIST" && refusals > 0 {
				refusals--
				return nil, apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "conf", errors.New("no relation"))
			}
			return nil, nil
		}
		r.start()
		pod := r.pod("one", configVolume("conf"))
		if _, awaited := r.o.State(pod); !slices.Equal(awaited, []string{"ConfigMap default/conf"}) {
			t.Errorf("awaited: %v", awaited)
		}
		// The authorizer was late.
		pass(time.Second)
		if _, awaited := r.o.State(pod); len(awaited) != 0 || r.value("conf", "a") != "1" {
			t.Errorf("awaited: %v", awaited)
		}
		mu.Lock()
		refusals = 1000
		mu.Unlock()
		r.endWatches()
		pass(time.Minute)
		ref := manifest.ObjectRef{Kind: manifest.KindConfigMap, Namespace: "default", Name: "conf"}
		// Those that print both print the error once.
		if what, remedy := r.o.Missing(ref); strings.Count(what+remedy, "no relation") != 1 || r.value("conf", "a") != "1" {
			t.Errorf("missing: %q, %q, %q", what, remedy, r.value("conf", "a"))
		}
		r.requests()
		pass(time.Hour)
		if n := len(r.askedFor("configmaps")); n > 700 {
			t.Errorf("%d requests in an hour", n)
		}
		r.end()
	})
}

// Objects that are too large together are not kept, but what was known before stays. They are
// requested again when there is space.
func TestObjectsThatAreTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newObjectsHarness(t)
		// A namespace has half of it.
		r.o.space.max = 400
		for _, name := range []string{"first", "second"} {
			r.config(name, map[string]string{"a": strings.Repeat(name[:1], 60)}, nil)
		}
		r.start()
		r.pod("first", configVolume("first"))
		second := r.pod("second", configVolume("second"))
		pass(time.Second)
		ref := manifest.ObjectRef{Kind: manifest.KindConfigMap, Namespace: "default", Name: "second"}
		if what, remedy := r.o.Missing(ref); !strings.Contains(what, "larger than") || remedy != "use smaller ones" ||
			r.value("second", "a") != "none" {
			t.Errorf("missing: %q, %q, %q", what, remedy, r.value("second", "a"))
		}
		if _, awaited := r.o.State(second); len(awaited) != 0 {
			t.Errorf("awaited: %v", awaited)
		}
		r.config("first", map[string]string{"a": strings.Repeat("f", 200)},
			func(m *v1.ConfigMap) { m.Labels = map[string]string{"x": "y"} })
		pass(time.Second)
		if got := r.value("first", "a"); got != strings.Repeat("f", 60) {
			t.Errorf("after an update that is too large: %q", got)
		}
		r.remove("pods", "default", "first")
		pass(time.Minute)
		if got := r.value("second", "a"); got != strings.Repeat("s", 60) || r.o.space.total != entrySize+61 {
			t.Errorf("when there is space: %q, %d bytes", got, r.o.space.total)
		}
		r.end()
	})
}

// Services and runtime classes that an API pod needs.
func TestServicesAndRuntimeClasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newObjectsHarness(t)
		r.replace(t, &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}, Handler: "crun"})
		r.replace(t, &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db"},
			Spec: v1.ServiceSpec{ClusterIP: "10.0.0.2", Ports: []v1.ServicePort{{Port: 80}}}})
		r.start()
		r.setSilent(true)
		pod := r.pod("one")
		if _, awaited := r.o.State(pod); !slices.Equal(awaited, []string{"Service "}) {
			t.Errorf("awaited: %q", awaited)
		}
		r.setSilent(false)
		pass(10 * time.Minute)
		if got := r.o.Services("default"); len(got) != 1 || got[0].Spec.ClusterIP != "10.0.0.2" {
			t.Errorf("services: %v", got)
		}
		class := "fast"
		pod.Name, pod.UID, pod.Spec.RuntimeClassName = "two", "", &class
		r.replace(t, pod)
		synctest.Wait()
		if c, ok := r.o.RuntimeClass("fast"); !ok || c.Handler != "crun" {
			t.Errorf("class: %v", c)
		}
		r.wasNotified()
		r.replace(t, &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
			Spec: v1.ServiceSpec{ClusterIP: "10.0.0.3", Ports: []v1.ServicePort{{Port: 80}}}})
		synctest.Wait()
		if got := r.o.Services("default"); len(got) != 2 || r.wasNotified() {
			t.Errorf("services: %v", got)
		}
		r.end()
	})
}

// Tokens are bound to their pod, shared by its volumes, renewed after four
// fifths of their lifetime, kept while they cannot be renewed, and removed with
// the pod.
func TestTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newObjectsHarness(t)
		var given []authenticationv1.TokenRequest
		var mu sync.Mutex
		refused := false
		refuse := func(yes bool) {
			mu.Lock()
			defer mu.Unlock()
			refused = yes
		}
		r.react = func(q fakeRequest) (runtime.Object, error) {
			if q.sub != "token" {
				return nil, nil
			}
			mu.Lock()
			defer mu.Unlock()
			if refused {
				return nil, apierrors.NewForbidden(schema.GroupResource{Resource: "serviceaccounts"}, q.name, errors.New("no"))
			}
			request := authenticationv1.TokenRequest{}
			if err := json.Unmarshal(q.body, &request); err != nil {
				return nil, err
			}
			given = append(given, request)
			request.Status.Token = fmt.Sprintf("token-%d", len(given))
			return &request, nil
		}
		r.start()
		pod := r.pod("one", tokenVolume("vault", 600), tokenVolume("vault", 600))
		of := pod.Spec.Volumes[0].Projected.Sources[0].ServiceAccountToken
		is := func(want string) {
			t.Helper()
			if got, err := r.o.Token(pod, of); got != want {
				t.Errorf("token %q (%v), want %q", got, err, want)
			}
		}
		is("token-1")
		if len(given) != 1 || given[0].Spec.BoundObjectRef.UID != pod.UID || given[0].Spec.BoundObjectRef.Name != "one" ||
			given[0].Spec.Audiences[0] != "vault" || *given[0].Spec.ExpirationSeconds != 600 {
			t.Fatalf("requested %+v", given)
		}
		before, awaited := r.o.State(pod)
		if len(awaited) != 0 {
			t.Errorf("awaited: %v", awaited)
		}
		pass(465 * time.Second)
		is("token-1")
		r.wasNotified()
		pass(20 * time.Second)
		is("token-2")
		if now, _ := r.o.State(pod); now == before || !r.wasNotified() {
			t.Error("no notification of the new token")
		}
		// A token that cannot be renewed is used until it expires.
		refuse(true)
		pass(10*time.Minute - time.Minute)
		is("token-2")
		pass(2 * time.Minute)
		if got, err := r.o.Token(pod, of); got != "" || err == nil || !strings.Contains(err.Error(), "expired") {
			t.Errorf("an expired token: %q, %v", got, err)
		}
		refuse(false)
		pass(20 * time.Second)
		is("token-3")
		r.remove("pods", "default", "one")
		synctest.Wait()
		r.requests()
		pass(time.Hour)
		if len(r.o.tokens) != 0 || len(r.askedFor("serviceaccounts")) != 0 {
			t.Error("tokens are renewed without a pod")
		}
		r.end()
	})
}

func TestTokenOfALongLifeIsRenewedDaily(t *testing.T) {
	for range 100 {
		if after := renewalDelay(365 * 24 * time.Hour); after > 24*time.Hour || after < 24*time.Hour-tokenJitter {
			t.Fatalf("after %s", after)
		}
		if after := renewalDelay(time.Hour); after > 48*time.Minute || after < 48*time.Minute-tokenJitter {
			t.Fatalf("after %s", after)
		}
	}
}
