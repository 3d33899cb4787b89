package main

import (
	"bufio"
	"errors"
	"io"
	"net"
	"strings"
	"time"
)

// get writes the body of the response of a server on a unix socket. HTTP 1.0 has no chunks, and the connection ends
// with the response.
func get(out io.Writer, socket, path string) error {
	conn, err := net.DialTimeout("unix", socket, time.Minute)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return err
	}
	if _, err := io.WriteString(conn, "GET "+path+" HTTP/1.0\r\nHost: podstead\r\n\r\n"); err != nil {
		return err
	}
	r := bufio.NewReader(conn)
	for line := 0; ; line++ {
		text, err := r.ReadString('\n')
		if err != nil {
			return err
		}
		switch text = strings.TrimSpace(text); {
		case line == 0 && !strings.Contains(text, " 200 "):
			return errors.New(text)
		case text == "":
			_, err := io.Copy(out, r)
			return err
		}
	}
}
