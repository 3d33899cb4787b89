package cli

import (
	"regexp"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// After a table of pods the state of the node is printed while it is not ready or under pressure; what
// programs read is not touched.
func TestGetPodsPrintsTheNode(t *testing.T) {
	d := newFakeDaemon(t, samples()...)
	d.conditions = []v1.NodeCondition{
		{Type: v1.NodeReady, Status: v1.ConditionFalse, Message: "container runtime is not answering",
			LastTransitionTime: metav1.NewTime(time.Now().Add(-20 * time.Minute))},
		{Type: v1.NodeMemoryPressure, Status: v1.ConditionFalse, Message: "the node has enough memory"},
		{Type: v1.NodeDiskPressure, Status: v1.ConditionTrue, Message: "the node has disk pressure"},
		{Type: "podstead.io/RootDirNotWritable", Status: v1.ConditionTrue, Message: "read-only file system"},
	}
	d.start()
	want := "node: n1 is not ready for 20m: container runtime is not answering; podstead check examines this host and " +
		"prints what to do\nnode: n1 has DiskPressure: the node has disk pressure\n" +
		"node: n1 cannot store or read its state: read-only file system\n"
	for _, args := range []string{"", "-o wide", "--no-headers", "web"} {
		_, errs, err := execute(t, "", append([]string{"get", "pods", "--api-socket", d.socket}, strings.Fields(args)...)...)
		if err != nil || !strings.Contains(errs, want) {
			t.Errorf("%q: %v\n%s", args, err, errs)
		}
	}
	for _, args := range []string{"-o json", "-o yaml", "-o name", "-o jsonpath={.items[*].metadata.name}"} {
		out, errs, err := execute(t, "",
			append([]string{"get", "pods", "--api-socket", d.socket}, strings.Fields(args)...)...)
		if err != nil || errs != "" || strings.Contains(out, "is not ready") {
			t.Errorf("%q: %v\n%s", args, err, errs)
		}
	}
	if _, errs, err := execute(t, "", "get", "events", "--api-socket", d.socket); err != nil ||
		strings.Contains(errs, "node:") {
		t.Errorf("events: %v\n%s", err, errs)
	}
}

// A pod that terminates reports what it waits for, in get pods and in status.
func TestTerminatingPodsSayWhatTheyWaitFor(t *testing.T) {
	terminating := func(name string, ago time.Duration, message string) v1.Pod {
		return pod(name, func(p *v1.Pod) {
			since, grace := metav1.NewTime(time.Now().Add(-ago-time.Second/2)), int64(30)
			p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &since, &grace
			p.Status.ContainerStatuses = []v1.ContainerStatus{running("a"), running("b")}
			p.Status.Message = message
		})
	}
	d := newFakeDaemon(t, terminating("ends", 10*time.Second, ""), terminating("lasts", 90*time.Second, ""),
		terminating("fails", time.Hour, "error killing pod: shim is stuck"))
	d.start()
	for _, args := range []string{"get pods", "get pods -o wide", "status"} {
		out, errs, _ := execute(t, "", append(strings.Fields(args), "--api-socket", d.socket)...)
		text := strings.Join(strings.Fields(out+errs), " ")
		for _, want := range []string{"its grace period of 30s ends in 1[0-9]s",
			"it has not stopped since its grace period of 30s ended 6[0-9]s ago", "error killing pod: shim is stuck"} {
			if !regexp.MustCompile(want).MatchString(text) {
				t.Errorf("%s does not say %q:\n%s%s", args, want, out, errs)
			}
		}
	}
}
