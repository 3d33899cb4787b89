package cri

import (
	"bytes"
	"testing"
	"unicode/utf8"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// FuzzAnnotations reads arbitrary annotations of a container, as other programs or a
// damaged runtime could return them. What cannot be parsed stays zero.
func FuzzAnnotations(f *testing.F) {
	f.Add("3", "30", "1", `{"exec":{"command":["sh"]}}`, `[{"name":"http","containerPort":80}]`, `{}`, int64(5))
	f.Add("-1", "99999999999999999999", "-2", `{"exec":`, `{"name":5}`, `[]`, int64(-5))
	f.Fuzz(func(t *testing.T, restarts, grace, sidecar, hook, ports, resources string, created int64) {
		seen := observedContainer(&runtimeapi.Container{Id: "c", CreatedAt: created, Annotations: map[string]string{
			AnnotationRestartCount: restarts, AnnotationTerminationGracePeriod: grace, AnnotationSidecar: sidecar,
			AnnotationPreStop: hook, annotationPorts: ports, AnnotationResources: resources,
		}}, true)
		if seen.RestartCount < 0 || seen.Sidecar < 0 || created <= 0 && !seen.CreatedAt.IsZero() {
			t.Errorf("%+v", seen)
		}
	})
}

// FuzzLogContent reads arbitrary logs for the termination message.
func FuzzLogContent(f *testing.F) {
	f.Add([]byte("2026-01-02T03:04:05Z stdout P a\n2026-01-02T03:04:05Z stdout F b\n"), 1)
	f.Add([]byte(`{"log":"\ud800a\n","stream":"stdout"}`+"\n{\n\xff \xff F \xff"), 80)
	f.Add([]byte("\n\n\n"), 2)
	f.Fuzz(func(t *testing.T, log []byte, count int) {
		text := logContent(log)
		count = min(max(count, 1), maxFallbackLines)
		last := lastLines(text, count)
		if !bytes.HasSuffix(text, last) || bytes.Count(bytes.TrimSuffix(last, []byte{'\n'}), []byte{'\n'}) >= count {
			t.Errorf("the last %d lines of %q are %q", count, text, last)
		}
		if message := validMessage(last, len(last) < len(text)); !utf8.ValidString(message) {
			t.Errorf("%q is not UTF-8", message)
		}
	})
}
