package httpapi

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/api"
	"github.com/podstead/podstead/httpapi/access"
)

// startsOf has the start of one pod.
type startsOf types.UID

func (s startsOf) PodStart(uid types.UID) (api.PodStart, bool) {
	return api.PodStart{Seconds: 0.25, Steps: []api.StartStep{{Name: "sandbox", Seconds: 0.125}}}, uid == types.UID(s)
}

func TestPodStarts(t *testing.T) {
	src := fakeSources{}.sources()
	src.Starts = startsOf("u")
	for uid, want := range map[types.UID]string{
		"u":     `[{"namespace":"default","name":"web-n1","uid":"u","seconds":0.25,"steps":[{"name":"sandbox","seconds":0.125}]}]`,
		"other": "[]",
	} {
		src.Pods = podList{{ObjectMeta: metav1.ObjectMeta{Name: "web-n1", Namespace: "default", UID: uid}}}
		if status, body := call(t, src, access.Read, "GET", "/starts"); status != 200 || body != want+"\n" && body != want {
			t.Errorf("%s: %d %s, want %s", uid, status, body, want)
		}
	}
}
