package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/podstead/podstead/node/devices"
)

// completeFiles reads a configuration file and a drop-in file.
func completeFiles(t *testing.T, file, dropIn string) (*Options, error) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"config.yaml": file, "d/10.conf": dropIn} {
		if text == "" {
			continue
		}
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(ownHead+text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"--config=" + filepath.Join(dir, "config.yaml")}
	if dropIn != "" {
		args = append(args, "--config-dir="+filepath.Join(dir, "d"))
	}
	o, _, err := complete(t, args...)
	return o, err
}

func TestLocalDevices(t *testing.T) {
	o, err := completeFiles(t, `localDevices:
  edge.example/serial: {paths: ["/dev/ttyS[0-3]", /dev/serial/by-id/*], permissions: rwm, podsPerDevice: 2}
  edge.example/camera: {cdiDevices: [vendor.example/camera=front]}
  edge.example/old: {paths: [/dev/old]}
`, `localDevices:
  edge.example/serial: {permissions: r}
  edge.example/can: {paths: [/dev/can0]}
  edge.example/old: null
`)
	if err != nil {
		t.Fatal(err)
	}
	want := LocalDevices{
		"edge.example/serial": devices.Local{Paths: []string{"/dev/ttyS[0-3]", "/dev/serial/by-id/*"}, Permissions: "r",
			PodsPerDevice: 2},
		"edge.example/camera": devices.Local{CDI: []string{"vendor.example/camera=front"}, Permissions: "rw",
			PodsPerDevice: 1},
		"edge.example/can": devices.Local{Paths: []string{"/dev/can0"}, Permissions: "rw", PodsPerDevice: 1},
	}
	if !reflect.DeepEqual(o.LocalDevices, want) {
		t.Errorf("got %+v", o.LocalDevices)
	}
}

// Each fault names file, line, field and remedy.
func TestInvalidLocalDevices(t *testing.T) {
	for text, want := range map[string][]string{
		"localDevices: [/dev/ttyS0]": {
			"localDevices: ", "is not a map, such as {edge.example/serial: {paths: [/dev/ttyUSB*]}}"},
		"localDevices: {serial: {paths: [/dev/ttyS0]}}": {
			"localDevices.serial: ", "extended resource", "edge.example/serial"},
		"localDevices: {kubernetes.io/serial: {paths: [/dev/ttyS0]}}": {
			"extended resource"},
		"localDevices: {edge.example/serial: /dev/ttyS0}": {
			"localDevices.edge.example/serial: ", "is not a map"},
		"localDevices: {edge.example/serial: {}}": {
			"has no devices"},
		"localDevices: {edge.example/serial: {paths: []}}": {
			"has no devices"},
		"localDevices: {edge.example/serial: {path: [/dev/ttyS0]}}": {
			"localDevices.edge.example/serial.path: unknown field; did you mean paths?"},
		"localDevices:\n  edge.example/serial:\n    paths:\n    - /dev/ttyS0\n    - ttyS1\n": {
			"config.yaml:7: localDevices.edge.example/serial.paths[1]: ttyS1 must be the absolute path"},
		"localDevices: {edge.example/serial: {paths: ['/dev/tty[']}}": {"paths[0]",
			"pattern"},
		"localDevices: {edge.example/serial: {paths: [/dev/../etc]}}": {
			"paths[0]"},
		"localDevices: {edge.example/serial: {paths: [/dev/ttyS0, /dev/ttyS0]}}": {"paths[1]",
			"twice"},
		"localDevices: {edge.example/serial: {paths: /dev/ttyS0}}": {
			"is not a list"},
		"localDevices: {edge.example/serial: {paths: [/dev/ttyS0], permissions: rx}}": {
			"permissions: rx is not valid"},
		"localDevices: {edge.example/serial: {paths: [/dev/ttyS0], podsPerDevice: 0}}": {
			"podsPerDevice: 0 is not valid"},
		"localDevices: {edge.example/serial: {paths: [/dev/ttyS0], podsPerDevice: '2'}}": {
			"podsPerDevice: 2 is not valid"},
		"localDevices: {edge.example/camera: {cdiDevices: [camera]}}": {
			"cdiDevices[0]", "vendor.example/camera=front"},
		"localDevices: {edge.example/camera: {cdiDevices: [vendor.example/camera=front], paths: [/dev/video0]}}": {
			"mutually exclusive"},
		"localDevices: {edge.example/camera: {cdiDevices: [vendor.example/camera=front], permissions: rw}}": {
			"permissions: has no effect on CDI devices"},
		"localdevices: {edge.example/serial: {paths: [/dev/ttyS0]}}": {"did you mean localDevices?"},
		"localDevices: {edge.example/serial: {paths: [/dev/ttyS0]}, edge.example/two: {paths: [/dev/ttyS1], permissions: " +
			"none}}": {"localDevices.edge.example/two.permissions"},
	} {
		_, err := completeFiles(t, text, "")
		if err == nil {
			t.Errorf("%s: no error", text)
			continue
		}
		for _, part := range append(want, "config.yaml:") {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q does not contain %q", text, err, part)
			}
		}
	}
}
