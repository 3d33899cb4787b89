package machine

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// qemu is one run of a machine, from power on to power off.
type qemu struct {
	cmd   *exec.Cmd
	ended chan struct{}
	// channel is the connection to the agent.
	channel *channel
	qmp     net.Conn

	mu     sync.Mutex
	reason string // of the SHUTDOWN event
}

// Reasons why a machine is off, as in QEMU's SHUTDOWN event.
const (
	guestReset    = "guest-reset"
	guestShutdown = "guest-shutdown"
)

// kernelArgs leave out what only costs time in emulation, such as mitigations of processor faults,
// clearing each page twice, and clearing 2 MiB for the first byte of a heap. Where each process has the
// same libraries at the same addresses, QEMU translates them once. On a host that does much other work,
// services need more than systemd's 90 s to start.
const kernelArgs = "quiet ro root=/dev/vda panic=10 mitigations=off init_on_alloc=0 transparent_hugepage=madvise " +
	"nokaslr norandmaps systemd.show_status=false systemd.getty_auto=no systemd.default_timeout_start_sec=600"

// emulator is the QEMU of an architecture.
type emulator struct {
	program    string
	args       []string
	kernelArgs string
}

var emulators = map[string]emulator{
	// Page tables of five levels only cost time. With erms, fsrm and rep_good (112), the kernel would
	// clear and copy pages with instructions that QEMU emulates byte by byte or word by word. Without
	// tsc=reliable the kernel would not trust the counters of two processors, and would read the time
	// from the HPET, which is a device of QEMU.
	AMD64: {"qemu-system-x86_64", []string{"-cpu", "max,erms=off,fsrm=off"},
		"console=ttyS0 no5lvl clearcpuid=112 tsc=reliable"},
	// A processor of servers, with atomic instructions and without what only costs time in emulation,
	// such as pointer authentication and SVE. With "max", on which the kernel uses all of that, its
	// scheduler once dereferenced a null pointer.
	ARM64: {"qemu-system-aarch64", []string{"-machine", "virt", "-cpu", "neoverse-n1"}, "console=ttyAMA0"},
}

// startQEMU powers a machine on. Its files are in dir.
//
// The disk is an overlay with cache=writeback: what the machine flushed (fsync, a journal commit)
// is in the page cache of the host, and survives the end of QEMU. Of what it wrote without a
// flush, QEMU may have written the data and not yet the overlay's metadata, so that a kill of
// QEMU loses it, as a power cut empties the write cache of a disk.
//
// There is no reboot within a run: a machine that resets is off, and is powered on again with
// another process, which finds the same disk.
func startQEMU(dir string, o Options, image Image, disk, initrd string) (*qemu, error) {
	for _, name := range []string{"agent.sock", "qmp.sock", "console", "journal"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
	emulator := emulators[image.Arch]
	args := append(slices.Clone(emulator.args),
		"-accel", "tcg,thread=multi,tb-size=512", "-smp", "2", "-m", fmt.Sprint(o.MemoryMiB),
		"-nodefaults", "-display", "none", "-no-reboot",
		"-kernel", image.kernel(), "-initrd", initrd,
		"-append", emulator.kernelArgs+" "+kernelArgs+" "+o.KernelArgs,
		"-drive", "file="+disk+",if=none,id=root,format=qcow2,cache=writeback,discard=unmap", "-object", "iothread,id=disk",
		"-device", "virtio-blk-pci,drive=root,iothread=disk,num-queues=1",
		"-device", "virtio-rng-pci", "-device", "virtio-serial-pci,max_ports=3",
		"-chardev", "socket,id=agent,path="+filepath.Join(dir, "agent.sock")+",server=on,wait=off",
		"-device", "virtserialport,chardev=agent,name="+portName,
		"-chardev", "file,id=journal,path="+filepath.Join(dir, "journal"), "-device", "virtconsole,chardev=journal",
		"-serial", "file:"+filepath.Join(dir, "console"),
		"-qmp", "unix:"+filepath.Join(dir, "qmp.sock")+",server=on,wait=off",
	)
	if !o.NoNetwork {
		args = append(args, "-netdev", "user,id=net", "-device", "virtio-net-pci,netdev=net,romfile=")
	}
	if o.Clock != "" {
		args = append(args, "-rtc", "base="+o.Clock)
	}
	log, err := os.Create(filepath.Join(dir, "qemu.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	// The process ends with the test bed's namespaces, however the test ends.
	cmd := exec.Command(emulator.program, append(args, o.QEMUArgs...)...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	q := &qemu{cmd: cmd, ended: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // q.reason reports why it ended
		close(q.ended)
	}()
	if err := q.connect(dir); err != nil {
		q.kill()
		text, _ := os.ReadFile(log.Name())
		return nil, fmt.Errorf("%w\n%s", err, text)
	}
	return q, nil
}

// connect connects to QEMU's sockets, which it creates before the machine runs.
func (q *qemu) connect(dir string) error {
	agent, err := q.dial(filepath.Join(dir, "agent.sock"))
	if err != nil {
		return err
	}
	q.channel = newChannel(agent)
	if q.qmp, err = q.dial(filepath.Join(dir, "qmp.sock")); err != nil {
		return err
	}
	if _, err := q.qmp.Write([]byte(`{"execute":"qmp_capabilities"}` + "\n")); err != nil {
		return err
	}
	go q.readEvents()
	return nil
}

func (q *qemu) dial(path string) (net.Conn, error) {
	for deadline := time.Now().Add(time.Minute); ; {
		c, err := net.Dial("unix", path)
		if err == nil {
			return c, nil
		}
		select {
		case <-q.ended:
			return nil, errors.New("QEMU has ended")
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return nil, err
		}
	}
}

// readEvents reads QEMU's events until it ends.
func (q *qemu) readEvents() {
	lines := bufio.NewScanner(q.qmp)
	for lines.Scan() {
		var event struct {
			Event string
			Data  struct{ Reason string }
		}
		if json.Unmarshal(lines.Bytes(), &event) == nil && event.Event == "SHUTDOWN" {
			q.mu.Lock()
			q.reason = event.Data.Reason
			q.mu.Unlock()
		}
	}
}

func (q *qemu) kill() {
	_ = q.cmd.Process.Kill()
	<-q.ended
	q.close()
}

func (q *qemu) close() {
	if q.channel != nil {
		q.channel.close()
	}
	if q.qmp != nil {
		_ = q.qmp.Close()
	}
}

// cpuTime returns the processor time that QEMU has used so far.
func (q *qemu) cpuTime() time.Duration {
	if _, off := q.off(); off {
		return q.cmd.ProcessState.UserTime() + q.cmd.ProcessState.SystemTime()
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", q.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	// utime and stime are the fields 14 and 15, in hundredths of a second.
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}

// off reports whether the machine is off, and why.
func (q *qemu) off() (string, bool) {
	select {
	case <-q.ended:
	default:
		return "", false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.reason, true
}
