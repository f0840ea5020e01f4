import { type Output, terminalOf } from '../../logging/terminal.ts'

/** Shows the current progress of a step: a text and, if known, the completed fraction from 0 to 1. */
export type ShowProgress = (words: string, share?: number) => void

/** Output of the demo's steps. */
export interface Screen {
  /** Runs one step and shows its progress, then the text that `outcome` returns for the result. */
  step: <T>(
    label: string,
    work: (showProgress: ShowProgress) => Promise<T>,
    outcome: (result: T) => string,
  ) => Promise<T>
  heading: (text: string) => void
  /** Prints one line, in a dim color if the line is less important. */
  line: (text?: string, dim?: boolean) => void
}

const labelWidth = 11
const barWidth = 24
const redrawMs = 80
const spinner = [...'⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏']

/**
 * Creates a screen that draws check marks and a progress bar on a terminal; elsewhere, it prints one line per finished
 * step.
 */
export function screen(out: Output, env: NodeJS.ProcessEnv): Screen {
  const { live, paint } = terminalOf(out, env)
  const print = (text: string) => void out.write(`${text}\n`)
  const mark = { done: paint('green', live ? '✔' : 'ok'), failed: paint('red', live ? '✖' : 'failed') }
  const row = (sign: string, label: string, text: string) =>
    `  ${sign}  ${paint('bold', label.padEnd(labelWidth))}${text}`
  return {
    step: async (label, work, outcome) => {
      const line = live ? liveLine(out, (sign, text) => row(paint('cyan', sign), label, text)) : quietLine
      try {
        const result = await work(line.showProgress)
        line.end()
        print(row(mark.done, label, outcome(result)))
        return result
      } catch (error) {
        line.end()
        print(row(mark.failed, label, '').trimEnd())
        throw error
      }
    },
    heading: (text) => print(`\n  ${paint('bold', text)}\n`),
    line: (text = '', dim = false) => print(dim ? paint('dim', text) : text),
  }
}

const quietLine: { showProgress: ShowProgress; end: () => void } = { showProgress: () => {}, end: () => {} }

/** Creates a line that is redrawn in place and cleared at the end. */
function liveLine(out: Output, format: (sign: string, text: string) => string): typeof quietLine {
  let text = ''
  let frame = 0
  const clearLine = '\r\x1b[2K'
  const draw = () => out.write(clearLine + format(spinner[frame++ % spinner.length] as string, text))
  const timer = setInterval(draw, redrawMs)
  draw()
  return {
    showProgress: (words, share) => {
      const line = share === undefined ? words : `${bar(share)} ${words}`
      // A line that wraps cannot be cleared.
      text = line.slice(0, Math.max((out.columns ?? 80) - labelWidth - 6, 0))
    },
    end: () => {
      clearInterval(timer)
      out.write(clearLine)
    },
  }
}

function bar(share: number): string {
  const full = Math.round(Math.min(Math.max(share, 0), 1) * barWidth)
  return `${'█'.repeat(full)}${'░'.repeat(barWidth - full)} ${String(Math.floor(share * 100)).padStart(3)} %`
}
