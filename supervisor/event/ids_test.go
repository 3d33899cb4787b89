package event

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestEventsThatDifferOnlyByIDAreOne(t *testing.T) {
	r := New(Config{})
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u"}}
	first, second := strings.Repeat("0a", 32), strings.Repeat("1b", 32)
	r.Event(pod, v1.EventTypeWarning, "Failed", `no network for sandbox "`+first+`"`)
	r.Event(pod, v1.EventTypeWarning, "Failed", `no network for sandbox "`+second+`"`)
	r.Event(pod, v1.EventTypeWarning, "Failed", `no network for container "web"`)
	list := r.List()
	if len(list) != 2 {
		t.Fatalf("%d events, want 2: %v", len(list), list)
	}
	if list[0].Count != 2 || !strings.Contains(list[0].Message, second) {
		t.Errorf("count %d, message %q; want 2 and the newest ID", list[0].Count, list[0].Message)
	}
}
