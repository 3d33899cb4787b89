package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/podstead/podstead/test/testbed/deviceplugin"
)

// benchDevice is the resource of the plugin of the measurements, which responds at once.
const benchDevice = "bench.example/device"

// devices measures the start of a pod with a device; its floor is that of one without, of the same
// daemon.
func (b *bench) devices() error {
	plugin, err := deviceplugin.Start(deviceplugin.Options{Dir: filepath.Join(b.node.Root, "device-plugins"),
		Resource: benchDevice, Devices: []string{"a"}})
	if err != nil {
		return err
	}
	defer plugin.Stop()
	var without, with []float64
	for range 5 * b.opts.rounds {
		for _, m := range []struct {
			manifest func(name string) string
			results  *[]float64
		}{
			{func(name string) string { return manifest(name, "one") }, &without},
			{func(name string) string {
				return strings.Replace(manifest(name, "one"), "env:",
					fmt.Sprintf("resources: {limits: {%s: 1}}, env:", benchDevice), 1)
			}, &with},
		} {
			names := b.names(1)
			took, err := b.startOf(names, m.manifest)
			if err != nil {
				return err
			}
			*m.results = append(*m.results, took.Seconds())
			if err := b.podsteadRemove(names); err != nil {
				return err
			}
		}
	}
	b.report.add(b.row("start of a pod with a device (floor: without)", "s"), with, without, timesFloor(1.1))
	return nil
}
