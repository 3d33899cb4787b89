package cri

import (
	"errors"
	"strings"
	"testing"
)

func TestErrorsHaveNames(t *testing.T) {
	web, log, sandbox := strings.Repeat("ab", 32), strings.Repeat("cd", 32), strings.Repeat("ef", 32)
	pod := &Pod{Containers: []Container{{ID: web, Name: "web"}, {ID: log, Name: "log"}, {ID: "short", Name: "x"}},
		Sandboxes: []Sandbox{{ID: sandbox}}}
	for text, want := range map[string]string{
		"failed to stop container " + web + ": shim is stuck": `failed to stop container "web": shim is stuck`,
		"failed to stop pod sandbox " + sandbox + ": failed to destroy network for sandbox \"" + sandbox + "\": no file": "failed to " +
			"stop pod sandbox: failed to destroy network for sandbox: no file",
		"failed to remove container " + log + ": container \"" + log + "\" is in the removing state, with " + web: `failed to remove ` +
			`container "log": container "log" is in the removing state, with "web"`,
		"unlinkat /run/" + web + "/rootfs: device or resource busy": "unlinkat /run/abababababab/rootfs: device or resource busy",
		"stop container short: it is short":                         "stop container short: it is short",
	} {
		err := withNames(errors.Join(ErrTimeout, errors.New(text)), pod)
		if got, _ := strings.CutPrefix(err.Error(), ErrTimeout.Error()+"\n"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if !errors.Is(err, ErrTimeout) {
			t.Errorf("%q has lost its class", err)
		}
	}
	if err := withNames(nil, pod); err != nil {
		t.Error(err)
	}
}
