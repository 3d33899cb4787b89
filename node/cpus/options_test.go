package cpus

import (
	"strings"
	"testing"
)

func TestParseOptions(t *testing.T) {
	got, err := ParseOptions(map[string]string{"full-pcpus-only": "true", "distribute-cpus-across-numa": "true",
		"strict-cpu-reservation": "true", "prefer-align-cpus-by-uncorecache": "false", "align-by-socket": "false"})
	if want := (Options{FullPhysicalCPUs: true, DistributeAcrossNUMA: true, StrictReservation: true}); err != nil ||
		got != want {
		t.Errorf("%+v, %v", got, err)
	}
	for want, values := range map[string]map[string]string{
		"not a supported option; use align-by": {"full-cpus": "true"},
		"must be \"true\" or \"false\"":        {"full-pcpus-only": "1x"},
		"exclude each other": {"prefer-align-cpus-by-uncorecache": "true",
			"distribute-cpus-across-numa": "true"},
	} {
		if _, err := ParseOptions(values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", values, err, want)
		}
	}
}

func TestReserved(t *testing.T) {
	topology := shape{1, 1, 1, 4, 2}.read(t)
	for name, c := range map[string]struct {
		explicit string
		milli    int64
		want     string
		err      string
	}{
		"explicit":     {"1,5", 500, "1,5", ""},
		"an amount":    {"", 1001, "0,4", ""},
		"a part":       {"", 1, "0", ""},
		"none":         {"", 0, "", "set reservedSystemCPUs"},
		"all":          {"0-7", 0, "", "leave at least one"},
		"as many":      {"", 7001, "", "reserve less"},
		"another host": {"0,8-9", 0, "", "this node has no CPU 8-9"},
	} {
		got, err := Reserved(topology, set(t, c.explicit), c.milli)
		if got.String() != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
}
