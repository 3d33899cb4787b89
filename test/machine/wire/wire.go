// Package wire is the protocol between the machine tests and the agent in the machine: frames on
// a virtio port, which multiplex the input and output of any number of commands.
package wire

import (
	"encoding/binary"
	"fmt"
	"io"
)

// PortName is the name of the virtio port.
const PortName = "podstead.machine"

// Builtin is the name of the commands that the agent runs itself:
//
//	agent marks              which test pods run
//	agent read POD PATH      a file as a process of a test pod sees it
//	agent get SOCKET PATH    what an HTTP server on a unix socket responds
const Builtin = "agent"

// Kind reports what a frame carries.
type Kind uint8

const (
	// Hello is the agent's first frame. Its data is the boot ID.
	Hello Kind = iota
	// Start starts a command. Its data is a Command as JSON.
	Start
	// Stdin is input of a command; without data it closes the input.
	Stdin
	// Stdout is output of a command.
	Stdout
	// Stderr is output of a command.
	Stderr
	// Exit ends a command. Its data is an ExitStatus as JSON; no frame of the command follows.
	Exit
	// Kill kills a command and its process group.
	Kill
)

// Command is a command of the machine.
type Command struct {
	Args []string
	// Input reports that Stdin frames follow. Without them the command reads from /dev/null.
	Input bool
}

// ExitStatus is how a command ended.
type ExitStatus struct {
	// Code is the exit code, 128 plus the signal if a signal ended the command, and -1 if it
	// could not be started.
	Code int
	// Err reports why the command could not be started.
	Err string
}

// MaxData limits the data of one frame, in bytes.
const MaxData = 64 << 10

// Frame is one message.
type Frame struct {
	// ID identifies the command. The side that starts it, the test, chooses it.
	ID   uint32
	Kind Kind
	Data []byte
}

const headerSize = 9

// Write writes a frame with one call of w.Write.
func Write(w io.Writer, f Frame) error {
	if len(f.Data) > MaxData {
		return fmt.Errorf("frame of %d bytes exceeds %d", len(f.Data), MaxData)
	}
	buf := make([]byte, headerSize, headerSize+len(f.Data))
	binary.BigEndian.PutUint32(buf, f.ID)
	buf[4] = byte(f.Kind)
	binary.BigEndian.PutUint32(buf[5:], uint32(len(f.Data)))
	_, err := w.Write(append(buf, f.Data...))
	return err
}

// Read reads a frame.
func Read(r io.Reader) (Frame, error) {
	var header [headerSize]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return Frame{}, err
	}
	size := binary.BigEndian.Uint32(header[5:])
	if size > MaxData {
		return Frame{}, fmt.Errorf("frame of %d bytes exceeds %d", size, MaxData)
	}
	f := Frame{ID: binary.BigEndian.Uint32(header[:]), Kind: Kind(header[4]), Data: make([]byte, size)}
	_, err := io.ReadFull(r, f.Data)
	return f, err
}
