/** A buffered destination for log lines: writing each line separately would cost more than producing it. */
export interface LogSink {
  write: (line: string) => void
  flush: () => void
}

const maxCharacters = 32_768
const maxWaitMs = 250

/** Buffers lines until the buffer is full, or for at most a quarter of a second, and then writes them to `out`. */
export function logSink(out: { write: (text: string) => unknown }): LogSink {
  let lines: string[] = []
  let characters = 0
  let timer: NodeJS.Timeout | undefined
  const flush = () => {
    clearTimeout(timer)
    timer = undefined
    if (lines.length === 0) return
    const text = lines.join('')
    lines = []
    characters = 0
    out.write(text)
  }
  return {
    write: (line) => {
      lines.push(line)
      characters += line.length
      if (characters >= maxCharacters) flush()
      else timer ??= setTimeout(flush, maxWaitMs).unref()
    },
    flush,
  }
}
