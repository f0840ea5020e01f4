import { styleText } from 'node:util'

/** Text styles for a terminal. */
export type Style = 'green' | 'yellow' | 'red' | 'cyan' | 'dim' | 'bold'
export type Paint = (style: Style, text: string) => string

/** An output stream. */
export type Output = Pick<NodeJS.WriteStream, 'write' | 'isTTY' | 'columns'>

/**
 * Returns whether the output is a terminal that can move its cursor, and a function that styles text. The function returns
 * the text unchanged if the output is not such a terminal or NO_COLOR is set.
 */
export function terminalOf({ isTTY }: Pick<Output, 'isTTY'>, env: NodeJS.ProcessEnv): { live: boolean; paint: Paint } {
  const live = isTTY === true && env.TERM !== 'dumb'
  const coloured = live && !env.NO_COLOR
  return { live, paint: (style, text) => (coloured ? styleText(style, text, { validateStream: false }) : text) }
}
