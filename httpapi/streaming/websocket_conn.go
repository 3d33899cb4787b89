package streaming

import (
	"errors"
	"io"
	"time"

	"github.com/gorilla/websocket"
)

// webSocketConn adapts a WebSocket to a net.Conn: its messages carry the bytes.
type webSocketConn struct {
	*websocket.Conn
	message io.Reader
}

func (t *webSocketConn) Read(b []byte) (int, error) {
	for {
		if t.message == nil {
			_, r, err := t.NextReader()
			var closed *websocket.CloseError
			if errors.As(err, &closed) && closed.Code == websocket.CloseNormalClosure {
				return 0, io.EOF
			}
			if err != nil {
				return 0, err
			}
			t.message = r
		}
		n, err := t.message.Read(b)
		if errors.Is(err, io.EOF) {
			t.message, err = nil, nil
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

func (t *webSocketConn) Write(b []byte) (int, error) {
	if err := t.WriteMessage(websocket.BinaryMessage, b); err != nil {
		return 0, err
	}
	return len(b), nil
}

// CloseWrite sends a close message: nothing more follows.
func (t *webSocketConn) CloseWrite() error {
	return t.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""),
		time.Now().Add(endTimeout))
}

func (t *webSocketConn) SetDeadline(at time.Time) error {
	return errors.Join(t.SetReadDeadline(at), t.SetWriteDeadline(at))
}
