package podinputs

import (
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/supervisor/volume"
)

// testObjects holds the objects that a test declares.
type testObjects struct {
	NoObjects
	configs    map[string]*v1.ConfigMap
	secrets    map[string]*v1.Secret
	priorities []*schedulingv1.PriorityClass
	runtimes   []*nodev1.RuntimeClass
}

func newTestObjects() *testObjects {
	return &testObjects{configs: map[string]*v1.ConfigMap{}, secrets: map[string]*v1.Secret{}}
}

func (o *testObjects) ConfigMap(namespace, name string) (*v1.ConfigMap, bool) {
	found, ok := o.configs[namespace+"/"+name]
	return found, ok
}

func (o *testObjects) Secret(namespace, name string) (*v1.Secret, bool) {
	found, ok := o.secrets[namespace+"/"+name]
	return found, ok
}

func (o *testObjects) PriorityClasses() []*schedulingv1.PriorityClass { return o.priorities }

func (o *testObjects) PriorityClass(name string) (*schedulingv1.PriorityClass, bool) {
	for _, c := range o.priorities {
		if c.Name == name {
			return c, true
		}
	}
	return nil, false
}

func (o *testObjects) RuntimeClass(name string) (*nodev1.RuntimeClass, bool) {
	for _, c := range o.runtimes {
		if c.Name == name {
			return c, true
		}
	}
	return nil, false
}

// store declares a ConfigMap whose revision follows from its content.
func (o *testObjects) store(namespace, name string, data map[string]string) {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name, ResourceVersion: "key-" + fmt.Sprint(data)}
	o.configs[namespace+"/"+name] = &v1.ConfigMap{ObjectMeta: meta, Data: data}
}

func (o *testObjects) putSecret(namespace, name string, data map[string]string) {
	secret := &v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, ResourceVersion: "1"},
		Data: map[string][]byte{}}
	for key, value := range data {
		secret.Data[key] = []byte(value)
	}
	o.secrets[namespace+"/"+name] = secret
}

// putLogin declares a pull secret in the namespace default.
func (o *testObjects) putLogin(name, revision string, kind v1.SecretType, key, text string) {
	secret := &v1.Secret{Type: kind, Data: map[string][]byte{key: []byte(text)}}
	secret.ResourceVersion, secret.UID = revision, types.UID("uid-"+name)
	o.secrets["default/"+name] = secret
}

// testClusterObjects holds the objects that an API server has reported.
type testClusterObjects struct {
	*testObjects
	volume.Cluster // for what no test asks
	services       map[string][]*v1.Service
	// held is why the objects of pods are not requested.
	held map[types.UID]string
}

func (o *testClusterObjects) Services(namespace string) []*v1.Service { return o.services[namespace] }

func (o *testClusterObjects) Token(*v1.Pod, *v1.ServiceAccountTokenProjection) (string, error) {
	return "token", nil
}

func (o *testClusterObjects) BoundClaim(*v1.Pod, *v1.Volume) (*v1.PersistentVolumeClaim, *v1.PersistentVolume, error) {
	return nil, nil, errors.New("is not bound")
}

func (o *testClusterObjects) Held(pod *v1.Pod) string { return o.held[pod.UID] }

func (o *testClusterObjects) State(*v1.Pod) (string, []string) { return "", nil }

type noEvents struct{}

func (noEvents) Event(*v1.Pod, string, string, string) {}

// testPod returns a static pod with one container.
func testPod(name string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "default", UID: "u1",
			Annotations: map[string]string{podinfo.AnnotationSource: string(podinfo.SourceFile)},
		},
		Spec: v1.PodSpec{Containers: []v1.Container{{Name: "app", Image: "img:1"}}},
	}
}
