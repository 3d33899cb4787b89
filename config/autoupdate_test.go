package config

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestAutoUpdateSettings(t *testing.T) {
	o, _, err := complete(t)
	if a := o.AutoUpdate; err != nil || a.Interval != 24*time.Hour || len(a.Windows) != 0 {
		t.Errorf("defaults are %+v %v", a, err)
	}
	file := files(t, map[string]string{"config.yaml": ownHead +
		"imageAutoUpdateInterval: 6h\nimageAutoUpdateWindows:\n- Sat,Sun 02:00-05:00\n- 22:00-04:00\n"})
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "6h0m0s [Sat,Sun 02:00-05:00 22:00-04:00]"},
		// Flags replace the list of the file.
		{[]string{"--image-auto-update-window", "Mon 01:00-02:00", "--image-auto-update-window", "Tue 01:00-02:00"},
			"6h0m0s [Mon 01:00-02:00 Tue 01:00-02:00]"},
		{[]string{"--image-auto-update-interval", "1m"}, "1m0s [Sat,Sun 02:00-05:00 22:00-04:00]"},
	} {
		o, _, err := completeIn(t, file, c.args...)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(o.AutoUpdate.Interval, o.AutoUpdate.Windows); got != c.want {
			t.Errorf("%v: %s, want %s", c.args, got, c.want)
		}
	}
	for _, c := range []struct{ args, want string }{
		{"--image-auto-update-interval=59s", "--image-auto-update-interval=59s: must be from 1m0s to 8784h0m0s, such as 24h"},
		{"--image-auto-update-interval=9000h", "must be from 1m0s"},
		{"--image-auto-update-window=never", `--image-auto-update-window: "never" is not a valid maintenance window`},
	} {
		if _, _, err := complete(t, c.args); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.args, err, c.want)
		}
	}
}
