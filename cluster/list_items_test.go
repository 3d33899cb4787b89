package cluster

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
)

func encodedLists(t testing.TB, list *v1.PodList) map[string][]byte {
	t.Helper()
	encoders := map[string]runtime.Encoder{
		"protobuf": protobuf.NewSerializer(fakeScheme, fakeScheme),
		"JSON":     json.NewSerializerWithOptions(json.DefaultMetaFactory, fakeScheme, fakeScheme, json.SerializerOptions{}),
	}
	list.SetGroupVersionKind(v1.SchemeGroupVersion.WithKind("PodList"))
	all := map[string][]byte{}
	for name, e := range encoders {
		var b bytes.Buffer
		if err := e.Encode(list, &b); err != nil {
			t.Fatal(err)
		}
		all[name] = b.Bytes()
	}
	return all
}

// A list is read object by object: each arrives before the rest is read.
func TestListsAreReadByObject(t *testing.T) {
	list := &v1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "17"}}
	for i := range 20 {
		list.Items = append(list.Items, v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("pod", i), Labels: map[string]string{"a": "b"}},
			Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "main", Args: []string{strings.Repeat("a", 100_000)}}}},
			Status:     v1.PodStatus{Phase: v1.PodRunning},
		})
	}
	for name, text := range encodedLists(t, list) {
		t.Run(name, func(t *testing.T) {
			from, count := bytes.NewReader(text), 0
			meta, err := decodeList(from, "PodList", func() runtime.Object { return &v1.Pod{} }, func(o runtime.Object) {
				if read := len(text) - from.Len(); read > (count+2)*100_000*2 {
					t.Errorf("%d of %d bytes are read at object %d", read, len(text), count)
				}
				pod := o.(*v1.Pod)
				pod.TypeMeta = metav1.TypeMeta{}
				if !equality.Semantic.DeepEqual(pod, &list.Items[count]) {
					t.Errorf("object %d differs", count)
				}
				count++
			})
			if err != nil || count != len(list.Items) || meta.ResourceVersion != "17" {
				t.Errorf("%v, %d objects, version %q", err, count, meta.ResourceVersion)
			}
			for _, at := range []int{0, 3, 30, len(text) / 2} {
				if _, err := decodeList(bytes.NewReader(text[:at]), "PodList", func() runtime.Object { return &v1.Pod{} },
					func(runtime.Object) {}); err == nil {
					t.Errorf("no error for the first %d bytes", at)
				}
			}
		})
	}
}

// Lengths that the response does not have are errors, without that much memory.
func TestBrokenLists(t *testing.T) {
	for name, text := range map[string]string{
		"larger item":          "k8s\x00\x12\x08\x12\xff\xff\xff\xff\xff\x7f",
		"larger than the list": "k8s\x00\x12\x03\x12\xff\x01",
		"another wire type":    "k8s\x00\x08\x01",
		"another document":     `[1]`,
		"items":                `{"items":{}}`,
		"a status":             `{"kind":"Status","apiVersion":"v1","metadata":{"resourceVersion":"1"},"status":"Failure","code":503}`,
		"no kind":              `{"metadata":{"resourceVersion":"1"},"items":[]}`,
		"no version":           `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[]}`,
		"nothing":              "k8s\x00",
		"a status in protobuf": "k8s\x00\x0a\x0c\x0a\x02v1\x12\x06Status\x12\x05\x0a\x03\x12\x011",
		"no kind in protobuf":  "k8s\x00\x12\x05\x0a\x03\x12\x011",
	} {
		if _, err := decodeList(io.MultiReader(strings.NewReader(text)), "PodList",
			func() runtime.Object { return &v1.Pod{} }, func(runtime.Object) {}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// a response that is no list does not count as a list without pods.
func TestAnswerThatIsNoList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newClusterHarness(t)
		r.start()
		defer r.end()
		pod := r.bindSized("default", "runs", 100, nil)
		pass(time.Second)
		r.fakeAPI.mu.Lock()
		r.react = func(q fakeRequest) (runtime.Object, error) {
			if q.resource == "pods" && (q.verb == "LIST" || q.verb == "WATCH") {
				return &metav1.Status{Status: metav1.StatusFailure, Code: 503, Message: "upstream"}, nil
			}
			return nil, nil
		}
		r.fakeAPI.mu.Unlock()
		r.endWatches()
		pass(time.Minute)
		if r.delivered(pod.UID) == nil {
			t.Error("the pod is gone")
		}
	})
}

// What is another kind in these tests is a list with the right one.
func TestListsWithoutObjects(t *testing.T) {
	for name, text := range map[string]string{
		"JSON":     `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":null}`,
		"any kind": `{"items":[],"metadata":{"resourceVersion":"1"},"kind":"List"}`,
		"protobuf": "k8s\x00\x0a\x0d\x0a\x02v1\x12\x07PodList\x12\x05\x0a\x03\x12\x011",
	} {
		meta, err := decodeList(strings.NewReader(text), "PodList", func() runtime.Object { return &v1.Pod{} },
			func(runtime.Object) { t.Error("an object") })
		if err != nil || meta.ResourceVersion != "1" {
			t.Errorf("%s: %v, version %q", name, err, meta.ResourceVersion)
		}
	}
}

// a response of any content is an error or a list, and needs no more memory than it has bytes.
func FuzzDecodeList(f *testing.F) {
	list := &v1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "17"},
		Items: []v1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}}}
	for _, text := range encodedLists(f, list) {
		f.Add(text)
	}
	f.Add([]byte("k8s\x00\x12\x08\x12\xff\xff\xff\xff\xff\x7f"))
	f.Add([]byte(`{"items":null}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		count := 0
		if _, err := decodeList(bytes.NewReader(text), "PodList", func() runtime.Object { return &v1.Pod{} },
			func(o runtime.Object) {
				if o == nil {
					t.Error("no object")
				}
				count++
			}); err == nil && count > len(text) {
			t.Errorf("%d objects of %d bytes", count, len(text))
		}
	})
}
