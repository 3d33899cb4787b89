package manifest

import "testing"

// A file name or key cannot forge a line, or send an escape sequence to a terminal.
func TestFaultIsOneVisibleLine(t *testing.T) {
	for unit, want := range map[string]string{
		"/pods/a.yaml":                "/pods/a.yaml:3: x: y",
		"/pods/ü “a”.yaml":            "/pods/ü “a”.yaml:3: x: y",
		"/pods/a\nERR b.yaml":         `/pods/a\nERR b.yaml:3: x: y`,
		"/pods/\x1b[31mred\r\x7f":     `/pods/\x1b[31mred\r\x7f:3: x: y`,
		"/pods/\xff\u2028\u202ea.yml": `/pods/\xff\u2028\u202ea.yml:3: x: y`,
	} {
		if got := (Fault{Unit: unit, Line: 3, Path: "x", Problem: "y"}).Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	faults := Faults{{Unit: "a\nb", Problem: "x"}, {Unit: "c", Path: "d[e\nf]", Problem: "y"}}
	if got := faults.Error(); got != "a\\nb: x\nc: d[e\\nf]: y" {
		t.Errorf("got %q", got)
	}
}
