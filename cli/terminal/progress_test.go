package terminal

import (
	"bytes"
	"strings"
	"testing"
)

// The same error in a new state is not repeated in a log.
func TestProgressPrintsAnErrorOnce(t *testing.T) {
	var out bytes.Buffer
	p := NewProgress(&out)
	for _, text := range []string{"web: ErrImagePull (image a): no such host",
		"web: ImagePullBackOff (image a): no such host", "web: ErrImagePull (image a): refused", "web: Running"} {
		p.Show(text)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	for i, want := range []string{"web: ErrImagePull (image a): no such host (", "web: ImagePullBackOff (image a) (",
		"web: ErrImagePull (image a): refused (", "web: Running ("} {
		if i >= len(lines) || !strings.HasPrefix(lines[i], want) {
			t.Errorf("line %d, want %s:\n%s", i, want, out.String())
		}
	}
	if p.text != "web: Running" {
		t.Errorf("last %s", p.text)
	}
}
