package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podstead/podstead/test/image"
	"github.com/podstead/podstead/test/testbed"
)

// imageSizes are the sizes of the images of rollouts, in bytes that do not compress.
var imageSizes = []struct {
	name string
	size int
}{{"small", 1 << 10}, {"large", 96 << 20}}

// rollouts measures how long a pod does not run while it is replaced by one with another
// image, which has to be pulled first: from the exit of its process to the start of the next
// container. The floor is a stop and a start without a pull.
func (b *bench) rollouts() error {
	for _, kind := range imageSizes {
		var floor, value, total []float64
		name := b.names(1)[0]
		if _, err := b.podsteadStart([]string{name}); err != nil {
			return err
		}
		for round := range b.opts.rounds {
			took, err := b.bareReplace()
			if err != nil {
				return err
			}
			floor = append(floor, took.Seconds())
			ref, err := b.pushImage(fmt.Sprintf("%s-%s-%d", kind.name, name, round), kind.size)
			if err != nil {
				return err
			}
			begin := time.Now()
			ended, started, err := b.rollOut(name, ref)
			if err != nil {
				return err
			}
			value, total = append(value, started.Sub(ended).Seconds()), append(total, started.Sub(begin).Seconds())
		}
		of := fmt.Sprintf("a pod with a new %s image (%d KiB)", kind.name, kind.size>>10)
		b.report.add(b.row("time without "+of, "s"), value, floor, floorPlus(0.1))
		b.report.add(b.row("replacement of "+of+", with its pull", "s"), total, nil, bound{})
		if err := b.podsteadRemove([]string{name}); err != nil {
			return err
		}
	}
	return nil
}

// rollOut gives a pod another image, and returns when its old process ended and the new
// container started.
func (b *bench) rollOut(name, ref string) (ended, started time.Time, err error) {
	old, _, err := b.awaitInstance(name, "")
	if err != nil {
		return ended, started, err
	}
	pid, err := b.rt.CRI.Pid(b.ctx, old)
	if err != nil {
		return ended, started, err
	}
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return ended, started, err
	}
	defer unix.Close(process)
	if err := b.node.Write(name+".yaml", strings.Replace(manifest(name, ref), testbed.BusyboxImage, ref, 1)); err != nil {
		return ended, started, err
	}
	if err := awaitExit(process); err != nil {
		return ended, started, err
	}
	ended = time.Now()
	_, started, err = b.awaitInstance(name, old)
	return ended, started, err
}

// awaitExit waits until the process of a pidfd has ended.
func awaitExit(process int) error {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(process), Events: unix.POLLIN}}, int(patience/time.Millisecond))
		if n > 0 {
			return nil
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
	}
	return errors.New("the replaced pod did not end")
}

// pushImage pushes an image that nothing has pulled yet.
func (b *bench) pushImage(name string, size int) (string, error) {
	ref := fmt.Sprintf("docker.io/library/%s-%s:1", name, b.rt.Kind)
	data := make([]byte, size)
	_, _ = rand.NewChaCha8(sha256.Sum256([]byte(ref))).Read(data) // never fails
	img, err := testbed.Busybox()
	if err != nil {
		return "", err
	}
	archive, err := image.Tar([]image.File{{Name: "data", Data: data, Mode: 0o644}})
	if err != nil {
		return "", err
	}
	return ref, b.registry.Push(ref, img.WithLayer(image.PlainLayer(archive)))
}
