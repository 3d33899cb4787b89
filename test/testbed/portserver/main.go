// Command portserver serves TCP ports in a container: 7001 echoes its input, 7002 answers with
// the SHA-256 of its input once that has ended.
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
