package preflight

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func TestPrint(t *testing.T) {
	list := []Finding{
		{Check: "runtime", Level: OK, Message: "it answers"},
		{Check: "dns", Level: Fail, Message: "no <server>", Fix: "echo a && b"},
		{Check: "swap", Level: Warn, Message: "on"},
	}
	var text, out bytes.Buffer
	if err := Print(&text, list, ""); err != nil {
		t.Fatal(err)
	}
	want := "ok    runtime  it answers\nfail  dns      no <server>\n               fix: echo a && b\nwarn  swap     " +
		"on\n1 failed, 1 warnings, 1 ok\n"
	if text.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &text, want)
	}
	if err := Print(&out, list, "json"); err != nil {
		t.Fatal(err)
	}
	var report struct {
		Findings       []Finding
		Failed, Warned int
	}
	if err := json.Unmarshal(out.Bytes(), &report); err != nil || report.Failed != 1 || report.Warned != 1 ||
		len(report.Findings) != 3 || report.Findings[1] != list[1] {
		t.Errorf("%v: %s", err, &out)
	}
	if !strings.Contains(out.String(), "a && b") {
		t.Errorf("a command cannot be copied out of %s", &out)
	}
}
