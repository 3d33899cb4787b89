// Command portserver serves TCP ports in a container: 7001 echoes its input, 7002 responds with
// the SHA-256 of its input once that has ended. 7010 to 7012 are hostile HTTP servers: their
// status line, their headers and their body never end. 7013 accepts no connection, and its
// queue is full. `portserver uid` prints the effective user ID instead.
package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"syscall"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "uid" {
		fmt.Println(os.Geteuid())
		return
	}
	go serve(":7002", func(c net.Conn) error {
		sum := sha256.New()
		if _, err := io.Copy(sum, c); err != nil {
			return err
		}
		_, err := fmt.Fprintf(c, "%x\n", sum.Sum(nil))
		return err
	})
	for address, begin := range map[string]string{
		":7010": "HTTP/1.1 200 ", ":7011": "HTTP/1.1 200 OK\r\nX-A: ", ":7012": "HTTP/1.1 404 Not Found\r\n\r\n",
	} {
		go serve(address, func(c net.Conn) error { return endless(c, begin) })
	}
	go fullQueue(7013)
	serve(":7001", func(c net.Conn) error {
		_, err := io.Copy(c, c)
		return err
	})
}

// endless writes a beginning, and then without end.
func endless(c net.Conn, begin string) error {
	text := []byte(begin)
	for {
		if _, err := c.Write(text); err != nil {
			return nil // the client has had enough
		}
		text = bytes.Repeat([]byte("a"), 64<<10)
	}
}

// fullQueue listens on a port and connects to it until the kernel drops what is more.
func fullQueue(port int) {
	s, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err == nil {
		err = errors.Join(syscall.Bind(s, &syscall.SockaddrInet4{Port: port}), syscall.Listen(s, 0))
	}
	if err != nil {
		log.Fatal(err)
	}
	for range 4 {
		go func() {
			if c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
				_, _ = io.Copy(io.Discard, c)
			}
		}()
	}
}

func serve(address string, response func(net.Conn) error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		log.Fatal(err)
	}
	for {
		c, err := l.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go func() {
			defer c.Close()
			if err := response(c); err != nil {
				log.Print(err)
			}
		}()
	}
}
