package suggest

import (
	"strings"
	"testing"
)

func FuzzNearest(f *testing.F) {
	f.Add("imag", "image")
	f.Add("volumeMount", "volumeMounts")
	f.Fuzz(func(t *testing.T, name, valid string) {
		distance := editDistance(name, valid)
		if distance != editDistance(valid, name) || (distance == 0) != (string([]rune(name)) == string([]rune(valid))) {
			t.Errorf("%q and %q: %d", name, valid, distance)
		}
		if got := Nearest(name, []string{valid}); got != "" && got != valid {
			t.Errorf("%q is not %q", got, valid)
		}
	})
}

func TestNearest(t *testing.T) {
	container := []string{"name", "image", "command", "args", "workingDir", "ports", "envFrom", "env", "resources",
		"resizePolicy",
		"restartPolicy", "restartPolicyRules", "volumeMounts", "volumeDevices", "livenessProbe", "readinessProbe",
		"startupProbe",
		"lifecycle", "terminationMessagePath", "terminationMessagePolicy", "imagePullPolicy", "securityContext", "stdin",
		"stdinOnce", "tty"}
	for name, want := range map[string]string{
		"imag": "image", "iamge": "image", "images": "image", "comand": "command", "arg": "args", "enviroment": "",
		"port": "ports", "volumeMount": "volumeMounts", "volumemounts": "volumeMounts", "resource": "resources",
		"imagePulPolicy": "imagePullPolicy", "livenesProbe": "livenessProbe", "replicas": "", "x": "", "": "", "workdir": "",
		"workinDir": "workingDir", strings.Repeat("image", 1000): "",
	} {
		if got := Nearest(name, container); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}
