// Reads a log with go-mysql, every row to values and every checksum verified, and prints rows and events; before them,
// with the argument "values", each row image: the table, and its values as n:number, s:bytes in hex, or - for NULL.
package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/go-mysql-org/go-mysql/replication"
)

func show(value any) string {
	switch known := value.(type) {
	case nil:
		return "-"
	case string:
		return fmt.Sprintf("s:%x", known)
	case []byte:
		return fmt.Sprintf("s:%x", known)
	case float32, float64, int, int8, int16, int32, int64, uint8, uint16, uint32, uint64:
		return fmt.Sprintf("n:%v", known)
	default:
		return fmt.Sprintf("s:%x", fmt.Sprint(known))
	}
}

func main() {
	rows, events := 0, 0
	showsValues := len(os.Args) > 2 && os.Args[2] == "values"
	parser := replication.NewBinlogParser()
	parser.SetVerifyChecksum(true)
	parser.SetTimestampStringLocation(time.UTC)
	err := parser.ParseFile(os.Args[1], 0, func(event *replication.BinlogEvent) error {
		events++
		if change, isRows := event.Event.(*replication.RowsEvent); isRows {
			rows += len(change.Rows)
			for _, image := range change.Rows {
				if showsValues {
					texts := []string{string(change.Table.Table)}
					for _, value := range image {
						texts = append(texts, show(value))
					}
					fmt.Println(strings.Join(texts, "\t"))
				}
			}
			switch event.Header.EventType {
			case replication.UPDATE_ROWS_EVENTv1, replication.UPDATE_ROWS_EVENTv2, replication.MARIADB_UPDATE_ROWS_COMPRESSED_EVENT_V1:
				rows -= len(change.Rows) / 2 // a before and an after image each
			}
		}
		return nil
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(rows, events)
}
