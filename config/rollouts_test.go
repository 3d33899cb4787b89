package config

import (
	"strings"
	"testing"
	"time"
)

func TestRollbackAfterSetting(t *testing.T) {
	file := files(t, map[string]string{"config.yaml": ownHead + "rollbackAfter: 6m\n"})
	for _, c := range []struct {
		args []string
		want time.Duration
	}{
		{nil, 6 * time.Minute},
		{[]string{"--rollback-after=0"}, 0},
		{[]string{"--rollback-after=24h"}, 24 * time.Hour},
	} {
		o, _, err := completeIn(t, file, c.args...)
		if err != nil || o.Rollouts.RollbackAfter != c.want {
			t.Errorf("%v: %v, %v", c.args, o.Rollouts.RollbackAfter, err)
		}
	}
	if o, _, err := complete(t); err != nil || o.Rollouts.RollbackAfter != 0 {
		t.Errorf("the default is %v, %v", o.Rollouts.RollbackAfter, err)
	}
	for _, wrong := range []string{"1ms", "25h", "-1s"} {
		if _, _, err := complete(t, "--rollback-after="+wrong); err == nil ||
			!strings.Contains(err.Error(), "must be from 1s to 24h0m0s") {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}
