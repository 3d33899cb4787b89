package httpapi

import (
	"encoding/json"
	"net/http/httptest"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type listedPods []*v1.Pod

func (l listedPods) Pods() []*v1.Pod { return l }

// The list is the JSON of a v1.PodList, with any number of pods.
func TestPodsAreAPodList(t *testing.T) {
	for count := range 3 {
		list, all := v1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, Items: []v1.Pod{}}, listedPods{}
		for range count {
			p := v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web<"}, Spec: v1.PodSpec{NodeName: "n"}}
			list.Items, all = append(list.Items, p), append(all, &p)
		}
		want, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		pods(all)(w, httptest.NewRequest("GET", "/pods", nil))
		if got := w.Body.String(); got != string(want) {
			t.Errorf("%d pods: %s, want %s", count, got, want)
		}
	}
}
