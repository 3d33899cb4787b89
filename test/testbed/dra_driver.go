package testbed

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// DRADriver is Kubernetes' driver of dynamic resource allocation for tests. Its devices add environment
// variables to containers, through CDI specifications in /var/run/cdi.
type DRADriver struct {
	// Name is the driver's in the API.
	Name string

	node    *Node
	config  string
	process *process
}

// NewDRADriver returns a driver for a node that has joined the cluster. It starts nothing.
func (c *Cluster) NewDRADriver(n *Node) (*DRADriver, error) {
	config, err := c.Kubeconfig("dra-driver", "system:masters")
	return &DRADriver{Name: n.Name + ".example.com", node: n, config: config}, err
}

// Start starts the driver, which registers through a socket in the node's registration directory.
func (d *DRADriver) Start() (err error) {
	data := filepath.Join(d.node.Root, "plugins")
	if err := os.MkdirAll(filepath.Join(data, d.Name), 0o750); err != nil {
		return err
	}
	d.process, err = start(exec.Command(draTestDriver(), "--kubeconfig", d.config, "--drivername", d.Name,
		"kubelet-plugin",
		"--plugin-registration-path", filepath.Join(d.node.Root, "plugins_registry"), "--datadir", data, "--node-name",
		d.node.Name), d.log())
	return err
}

func (d *DRADriver) log() string { return filepath.Join(d.node.Root, "dra-driver.log") }

// Stop ends the driver, which removes its sockets, and waits for its end.
func (d *DRADriver) Stop() {
	if d.process != nil {
		d.process.Signal(syscall.SIGTERM)
		<-d.process.ended
		d.process = nil
	}
}

// Kill kills the driver, which leaves its sockets, and waits for its end.
func (d *DRADriver) Kill() {
	d.process.Signal(syscall.SIGKILL)
	<-d.process.ended
	d.process = nil
}

// Pause lets the driver serve no calls, Continue serves them.
func (d *DRADriver) Pause()    { d.process.Signal(syscall.SIGSTOP) }
func (d *DRADriver) Continue() { d.process.Signal(syscall.SIGCONT) }

// Log returns the end of the driver's log.
func (d *DRADriver) Log() string { return string(tail(d.log())) }

// Prepared returns the CDI specifications of claims that are prepared.
func (d *DRADriver) Prepared() ([]string, error) {
	files, err := filepath.Glob(filepath.Join("/var/run/cdi", d.Name+"-*.json"))
	if err != nil {
		return nil, fmt.Errorf("failed to list CDI specifications: %w", err)
	}
	return files, nil
}
