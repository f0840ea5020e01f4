/** A buffered destination for log lines: writing each line separately would cost more than producing it. */
export interface LogSink {
  write: (line: string) => void
  flush: () => void
}

const maxCharacters = 65_536
const maxWaitMs = 250

/** Buffers lines until the buffer is full, or for at most a quarter of a second, and then writes them to `out`. */
export function logSink(out: { write: (text: string) => unknown }): LogSink {
  let text = ''
  let timer: NodeJS.Timeout | undefined
  const flush = () => {
    clearTimeout(timer)
    timer = undefined
    if (text === '') return
    const lines = text
    text = ''
    out.write(lines)
  }
  return {
    write: (line) => {
      text += line
      if (text.length >= maxCharacters) flush()
      else timer ??= setTimeout(flush, maxWaitMs).unref()
    },
    flush,
  }
}
