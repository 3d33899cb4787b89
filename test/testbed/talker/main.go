// Command talker listens on ports in a container: on 7001 it sends back what
// comes, on 7002 it answers with the SHA-256 of what came when that has ended.
package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"log"
	"net"
)

func main() {
	go serve(":7002", func(c net.Conn) error {
		sum := sha256.New()
		if _, err := io.Copy(sum, c); err != nil {
			return err
		}
		_, err := fmt.Fprintf(c, "%x\n", sum.Sum(nil))
		return err
	})
	serve(":7001", func(c net.Conn) error {
		_, err := io.Copy(c, c)
		return err
	})
}

func serve(address string, answer func(net.Conn) error) {
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
			if err := answer(c); err != nil {
				log.Print(err)
			}
		}()
	}
}
