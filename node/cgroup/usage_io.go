package cgroup

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/podstead/podstead/internal/usage"
)

// IO reads what a cgroup read from and wrote to block devices. Without the
// controller it returns nothing.
func (r *Reader) IO(path string) []usage.DeviceIO {
	if r.h.v2() {
		return ioV2(filepath.Join(r.h.unified, path, "io.stat"))
	}
	dir := r.directory(controllerBlkIO, path)
	if dir == "" {
		return nil
	}
	byDevice := map[string]*usage.DeviceIO{}
	var order []string
	for _, count := range []struct {
		file  string
		value func(*usage.DeviceIO) (read, written *uint64)
	}{
		{"blkio.throttle.io_service_bytes_recursive",
			func(i *usage.DeviceIO) (*uint64, *uint64) { return &i.ReadBytes, &i.WriteBytes }},
		{"blkio.throttle.io_serviced_recursive",
			func(i *usage.DeviceIO) (*uint64, *uint64) { return &i.ReadOps, &i.WriteOps }},
	} {
		data, _ := os.ReadFile(filepath.Join(dir, count.file)) // removed, or not counted
		for line := range strings.Lines(string(data)) {
			f := strings.Fields(line)
			if len(f) != 3 {
				continue
			}
			n, err := strconv.ParseUint(f[2], 10, 64)
			if err != nil {
				continue
			}
			if byDevice[f[0]] == nil {
				byDevice[f[0]] = &usage.DeviceIO{Device: f[0]}
				order = append(order, f[0])
			}
			read, written := count.value(byDevice[f[0]])
			switch f[1] {
			case "Read":
				*read = n
			case "Write":
				*written = n
			}
		}
	}
	var list []usage.DeviceIO
	for _, device := range order {
		list = append(list, *byDevice[device])
	}
	return list
}

// ioV2 reads lines such as "8:0 rbytes=90112 wbytes=0 rios=3 wios=0". A device with a cost
// model also has cost.usage and others, in microseconds.
func ioV2(file string) []usage.DeviceIO {
	data, _ := os.ReadFile(file) // removed, or not counted
	var list []usage.DeviceIO
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		i := usage.DeviceIO{Device: f[0]}
		cost := usage.IOCost{}
		for _, pair := range f[1:] {
			key, text, _ := strings.Cut(pair, "=")
			n, err := strconv.ParseUint(text, 10, 64)
			if err != nil {
				continue
			}
			switch key {
			case "rbytes":
				i.ReadBytes = n
			case "wbytes":
				i.WriteBytes = n
			case "rios":
				i.ReadOps = n
			case "wios":
				i.WriteOps = n
			case "cost.usage":
				cost.Usage, i.Cost = time.Duration(n)*time.Microsecond, &cost
			case "cost.wait":
				cost.Wait = time.Duration(n) * time.Microsecond
			case "cost.indebt":
				cost.Debt = time.Duration(n) * time.Microsecond
			case "cost.indelay":
				cost.Delay = time.Duration(n) * time.Microsecond
			}
		}
		list = append(list, i)
	}
	return list
}
