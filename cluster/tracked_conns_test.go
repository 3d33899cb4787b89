package cluster

import (
	"io"
	"net"
	"testing"
)

func TestConnectionsAreClosed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := &trackedConns{}
	open := func() (here, there net.Conn) {
		t.Helper()
		here, err := c.dial(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		there, err = l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { there.Close() })
		return here, there
	}
	one, _ := open()
	two, there := open()
	one.Close()
	if len(c.open) != 1 {
		t.Errorf("%d are open", len(c.open))
	}
	c.close()
	if _, err := there.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the peer reads %v", err)
	}
	if _, err := two.Write([]byte("x")); err == nil {
		t.Error("the closed connection accepts writes")
	}
	three, _ := open()
	if len(c.open) != 1 {
		t.Errorf("%d are open", len(c.open))
	}
	three.Close()
	two.Close()
	if len(c.open) != 0 {
		t.Errorf("%d are open", len(c.open))
	}
}
