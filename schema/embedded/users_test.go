package embedded_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/pagetally/pagetally/schema/embedded/embeddedtest"
)

// Error codes of ClickHouse.
const (
	readOnly             = 164
	quotaExceeded        = 201
	constraintViolation  = 452
	accessDenied         = 497
	authenticationFailed = 516
)

func isException(err error, code int32) bool {
	var exception *clickhouse.Exception
	return errors.As(err, &exception) && exception.Code == code
}

func TestReaderReadsAndNoMore(t *testing.T) {
	server := embeddedtest.Shared(t)
	writer := open(t, server.Options("")) // the shared engine's own database: no other test here touches it
	database := server.Engine().Reader().Database
	for _, table := range []string{"views", "salts", "keys"} {
		exec1(t, writer, "CREATE TABLE "+table+" (n Int64) ENGINE = MergeTree ORDER BY n")
		t.Cleanup(func() { _ = writer.Exec(context.Background(), "DROP TABLE "+table) })
		exec1(t, writer, "INSERT INTO "+table+" VALUES (7)")
	}
	for _, protocol := range []clickhouse.Protocol{clickhouse.Native, clickhouse.HTTP} {
		options := server.ReaderOptions()
		options.Protocol = protocol
		if protocol == clickhouse.HTTP {
			options.Addr = []string{server.Engine().Reader().HTTPAddr}
		}
		// What Grafana's plugin sends with every query, and its ad hoc filters.
		options.Settings = clickhouse.Settings{"max_execution_time": 65}
		reader := open(t, options)
		for _, c := range []struct {
			query string
			code  int32 // 0: allowed
		}{
			{"SELECT n FROM views", 0},
			{"SELECT n FROM views SETTINGS additional_table_filters = {'" + database + ".views': 'n = 7'}", 0},
			{"SELECT name FROM system.databases", 0},
			{"SELECT name FROM system.tables WHERE database = currentDatabase()", 0},
			{"SELECT name FROM system.columns WHERE table = 'views'", 0},
			{"SELECT name FROM system.functions LIMIT 1", 0},
			{"DESCRIBE TABLE views", 0},
			{"SELECT n FROM salts", accessDenied},
			{"SELECT n FROM keys", accessDenied},
			{"SELECT * FROM system.users", accessDenied},
			{"SELECT * FROM system.processes", accessDenied},
			{"SELECT * FROM file('/etc/passwd', 'LineAsString')", accessDenied},
			{"SELECT * FROM url('http://127.0.0.1:1/', 'LineAsString')", accessDenied},
			{"INSERT INTO views VALUES (1)", accessDenied},
			{"CREATE TABLE mine (n Int64) ENGINE = Memory", accessDenied},
			{"DROP TABLE views", accessDenied},
			{"ALTER TABLE views DELETE WHERE 1", accessDenied},
			{"SYSTEM STOP LISTEN HTTP", accessDenied},
			{"CREATE USER friend", accessDenied},
			{"SELECT n FROM views SETTINGS max_memory_usage = 0", readOnly},
			{"SELECT n FROM views SETTINGS max_execution_time = 601", constraintViolation},
		} {
			err := reader.Exec(t.Context(), c.query)
			if c.code == 0 && err != nil || c.code != 0 && !refused(err, c.code) {
				t.Errorf("%v: %s: %v, want code %d", protocol, c.query, err, c.code)
			}
		}
	}
	var sum int64
	if err := writer.QueryRow(t.Context(), "SELECT sum(n) FROM views").Scan(&sum); err != nil || sum != 7 {
		t.Errorf("sum after the reader's tries = %d (%v), want 7", sum, err)
	}
}

// refused accepts the code that is meant, or that of a read-only user: which of both checks comes first is the engine's
// choice.
func refused(err error, code int32) bool {
	return isException(err, code) || isException(err, readOnly)
}

func TestNobodyElseGetsIn(t *testing.T) {
	server := embeddedtest.Shared(t)
	options := server.Options("default")
	options.Auth.Username, options.Auth.Password = "default", ""
	options.DialTimeout = 5 * time.Second
	terminal := open(t, options)
	for _, query := range []string{
		"SELECT * FROM system.tables", "SELECT count() FROM numbers(3)", "SYSTEM STOP LISTEN TCP", "CREATE DATABASE mine",
		"SELECT * FROM file('/etc/passwd', 'LineAsString')", "DROP DATABASE pagetally",
	} {
		err := terminal.Exec(t.Context(), query)
		if !isException(err, quotaExceeded) && !isException(err, accessDenied) {
			t.Errorf("%s without a password: %v, want a refusal", query, err)
		}
	}
	for _, user := range []string{"pagetally", "reader", "root", ""} {
		options.Auth.Username, options.Auth.Password = user, "default"
		if err := open(t, options).Ping(t.Context()); err == nil {
			t.Errorf("user %q got in", user)
		}
	}
}
