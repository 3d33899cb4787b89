package cli

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/podstead/podstead/api"
	"github.com/podstead/podstead/cli/describe"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares a text with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got), go test -update rewrites it:\n%s", path, diff)
	}
}

var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(noon.Add(-d)) }

// fullPod is a pod with a value for every part of a description.
func fullPod() *v1.Pod {
	start, priority, always, seconds := ago(3*time.Hour), int32(1000), v1.ContainerRestartPolicyAlways, int64(300)
	quantity := resource.MustParse
	directory, signal, started, mode := v1.HostPathDirectoryOrCreate, v1.SIGUSR1, false, int32(0o644)
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web-n1", Namespace: "default", UID: "0f1e2d3c", Labels: map[string]string{"tier": "front", "app": "web"},
			Annotations: map[string]string{"kubernetes.io/config.source": "file", "note": "two\nlines",
				"red": "\x1b[31mred\u009b0m"},
		},
		Spec: v1.PodSpec{
			NodeName: "n1", Priority: &priority, PriorityClassName: "edge", RestartPolicy: v1.RestartPolicyAlways,
			HostNetwork: true,
			Tolerations: []v1.Toleration{{Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute},
				{Key: "a", Value: "b", TolerationSeconds: &seconds}},
			InitContainers: []v1.Container{
				{Name: "setup", Image: "busybox:1", Command: []string{"sh", "-c", "one\ntwo\n"}},
				{Name: "side", Image: "busybox:1", RestartPolicy: &always,
					Lifecycle: &v1.Lifecycle{PostStart: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"warm", "up"}}}}},
			},
			Containers: []v1.Container{{
				Name: "main", Image: "busybox:1", Command: []string{"httpd"}, Args: []string{"-f"},
				RestartPolicyRules: []v1.ContainerRestartRule{
					{Action: v1.ContainerRestartRuleActionRestartAllContainers,
						ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn,
							Values: []int32{9, 10}}}},
				Lifecycle: &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 5}}, StopSignal: &signal},
				Ports: []v1.ContainerPort{{Name: "http", ContainerPort: 80, HostPort: 8080, HostIP: "127.0.0.1",
					Protocol: "TCP"}, {ContainerPort: 53, Protocol: "UDP"}},
				Resources: v1.ResourceRequirements{
					Limits:   v1.ResourceList{"memory": quantity("64Mi"), "cpu": quantity("500m")},
					Requests: v1.ResourceList{"cpu": quantity("100m")},
				},
				Env: []v1.EnvVar{
					{Name: "WORD", Value: "one"}, {Name: "AN_UNUSUALLY_LONG_NAME", Value: "x"},
					{Name: "IP", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: "status.podIP"}}},
					{Name: "KEY",
						ValueFrom: &v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{
							LocalObjectReference: v1.LocalObjectReference{Name: "s"}, Key: "k"}}},
				},
				EnvFrom: []v1.EnvFromSource{
					{Prefix: "P_", ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: "c"}}}},
				VolumeMounts: []v1.VolumeMount{{Name: "data", MountPath: "/data", SubPath: "a b"},
					{Name: "host", MountPath: "/host", ReadOnly: true}},
				LivenessProbe: &v1.Probe{ProbeHandler: v1.ProbeHandler{
					HTTPGet: &v1.HTTPGetAction{Scheme: "HTTP", Port: intstr.FromInt32(80), Path: "/"}}, TimeoutSeconds: 1,
					PeriodSeconds: 10, SuccessThreshold: 1, FailureThreshold: 3},
			}},
			Volumes: []v1.Volume{
				{Name: "data", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
				{Name: "conf",
					VolumeSource: v1.VolumeSource{
						ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "conf"},
							DefaultMode: &mode}}},
				{Name: "host", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/srv", Type: &directory}}},
			},
		},
		Status: v1.PodStatus{
			Phase: v1.PodRunning, StartTime: &start, PodIP: "10.0.0.7", PodIPs: []v1.PodIP{{IP: "10.0.0.7"}, {IP: "fd00::7"}},
			QOSClass: v1.PodQOSBurstable,
			InitContainerStatuses: []v1.ContainerStatus{
				{Name: "setup", ContainerID: "containerd://aa",
					State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{Reason: "Completed",
						StartedAt: ago(3 * time.Hour), FinishedAt: ago(2 * time.Hour)}}},
				{Name: "side", Started: &started,
					State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: ago(time.Hour)}}},
			},
			ContainerStatuses: []v1.ContainerStatus{{
				Name: "main", ContainerID: "containerd://bb", ImageID: "busybox@sha256:cc", RestartCount: 4,
				State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff",
					Message: "back-off 40s restarting failed container=main"}},
				LastTerminationState: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{Reason: "Error",
					Message: "panic:\nout of luck\n", ExitCode: 2, StartedAt: ago(time.Minute), FinishedAt: ago(50 * time.Second)}},
			}},
			Conditions: []v1.PodCondition{
				{Type: v1.PodReady, Status: v1.ConditionFalse, LastTransitionTime: ago(50 * time.Second),
					Reason: "ContainersNotReady", Message: "containers with unready status: [main]"},
				{Type: v1.PodScheduled, Status: v1.ConditionTrue},
				{Type: "podstead.io/ManifestFault", Status: v1.ConditionTrue, LastTransitionTime: ago(time.Hour),
					Reason: "ManifestFaulty", Message: "/etc/pods/web.yaml:3: x: unknown\nSecret default/creds is referenced by the " +
						"pod but is in no manifest"},
			},
		},
	}
}

func sampleEvents() []v1.Event {
	event := func(kind, reason, message string, first, last time.Duration, count int32) v1.Event {
		return v1.Event{
			ObjectMeta:     metav1.ObjectMeta{Namespace: "default", Name: "web-n1." + reason},
			InvolvedObject: v1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "web-n1"},
			Type:           kind, Reason: reason, Message: message, Source: v1.EventSource{Component: "podstead", Host: "n1"},
			FirstTimestamp: ago(first), LastTimestamp: ago(last), Count: count,
		}
	}
	return []v1.Event{
		event("Normal", "Pulled", `Image "busybox:1" is present`, time.Hour, time.Hour, 1),
		event("Warning", "BackOff", "Back-off restarting\nfailed container", time.Hour, time.Minute, 12),
	}
}

func TestDescribePod(t *testing.T) {
	terminating, since, grace := fullPod(), ago(5*time.Second), int64(30)
	terminating.DeletionTimestamp, terminating.DeletionGracePeriodSeconds = &since, &grace
	terminating.Spec = v1.PodSpec{NodeName: "n1", RestartPolicy: v1.RestartPolicyNever,
		Containers: []v1.Container{{Name: "main", Image: "busybox:1"}}}
	terminating.Status = v1.PodStatus{Phase: v1.PodRunning,
		ContainerStatuses: []v1.ContainerStatus{{Name: "main", Ready: true,
			State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: ago(time.Hour)}}}}}
	pending := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "held-n1", Namespace: "prod", UID: "9"},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "main", Image: "busybox:1"}}},
		Status:     v1.PodStatus{Phase: v1.PodPending, Reason: "NameInUse", Message: "a pod of another client has this name"},
	}
	for name, d := range map[string]describe.PodDescription{
		"describe-full.txt": {Pod: fullPod(),
			Start: &api.PodStart{Seconds: 0.19,
				Steps: []api.StartStep{{Name: "volumes", Seconds: 0.004}, {Name: "sandbox", Seconds: 0.11},
					{Name: "start", Seconds: 0.046}}}, Events: sampleEvents(),
			Manifest: api.ManifestUnit{Name: "/etc/pods/web.yaml", Digest: "sha256:12", Restored: true,
				Faults: []string{"/etc/pods/web.yaml:3: x: unknown", "/etc/pods/web.yaml:9: y: unknown"}}},
		"describe-terminating.txt": {Pod: terminating, Manifest: api.ManifestUnit{Name: "/etc/pods/web.yaml"}},
		"describe-pending.txt":     {Pod: pending},
	} {
		d.Now = noon
		golden(t, name, d.Text())
	}
}

func TestDescribeCommand(t *testing.T) {
	twin := *fullPod()
	twin.Namespace, twin.Name = "prod", "twin-n1"
	other := twin
	other.Namespace = "test"
	socket := fullDaemon(t, []v1.Pod{*fullPod(), twin, other}, nil)
	for _, name := range []string{"web", "web-n1", "pod/web"} {
		out, errs, err := execute(t, "", "describe", "pod", name, "--api-socket", socket)
		if err != nil || errs != "" || !strings.HasPrefix(out, "Name:             web-n1\n") ||
			!strings.Contains(out, "/etc/pods/web.yaml\n") || !strings.Contains(out, "BackOff") {
			t.Errorf("%s: %v %s\n%s", name, err, errs, out)
		}
	}
	_, errs, err := execute(t, "", "describe", "pod", "bad", "--api-socket", socket)
	if err == nil || !strings.Contains(err.Error(), `pod "bad" not found`) ||
		!strings.Contains(errs, "/etc/pods/bad.yaml:1: is wrong") {
		t.Errorf("an unknown pod: %v, %q", err, errs)
	}
	_, _, err = execute(t, "", "describe", "pod", "twin", "--api-socket", socket)
	if err == nil || !strings.Contains(err.Error(), "--namespace") {
		t.Errorf("a name in two namespaces: %v", err)
	}
	if out, _, err := execute(t, "", "describe", "pod", "twin", "-n", "test", "--api-socket", socket); err != nil ||
		!strings.Contains(out, "test\n") {
		t.Errorf("with --namespace: %v\n%s", err, out)
	}
}

func TestGetEvents(t *testing.T) {
	socket := fullDaemon(t, nil, nil)
	for _, name := range []string{"web", "web-n1"} {
		out, errs, err := execute(t, "", "get", "events", name, "--api-socket", socket)
		if err != nil || errs != "" || !strings.HasPrefix(out, "NAMESPACE   LAST SEEN") || strings.Count(out, "\n") != 3 {
			t.Errorf("%s: %v %q\n%s", name, err, errs, out)
		}
	}
	out, errs, err := execute(t, "", "get", "events", "nosuch", "--api-socket", socket)
	if err != nil || out != "" || errs != "no events found\n" {
		t.Errorf("no events: %v %q %q", err, out, errs)
	}
	out, _, err = execute(t, "", "get", "events", "-o", "json", "--api-socket", socket)
	var list v1.EventList
	if err != nil || json.Unmarshal([]byte(out), &list) != nil || len(list.Items) != 2 ||
		list.Items[1].Reason != "BackOff" {
		t.Errorf("-o json: %v\n%s", err, out)
	}
}
