import { existsSync } from 'node:fs'

/** The fonts of one document, and how to measure and cut text in them. */
export interface Fonts {
  /** Chooses the font for a text, and returns the text as that font can show it. */
  choose: (text: string, bold?: boolean) => string
  widthOf: (text: string, size: number, bold?: boolean) => number
  /** The longest start of a text that fits, with an ellipsis where it had to be cut. */
  cut: (text: string, size: number, room: number) => string
}

/** Fonts of many scripts at the places where systems keep them; the first one that is there is used. */
const places = [
  '/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf',
  '/usr/share/fonts/truetype/noto/NotoSans-Regular.ttf',
  '/usr/share/fonts/noto/NotoSans-Regular.ttf',
  '/usr/share/fonts/TTF/DejaVuSans.ttf',
  '/System/Library/Fonts/Supplemental/Arial Unicode.ttf',
  'C:\\Windows\\Fonts\\arial.ttf',
]

/** Helvetica, which needs no file, shows the characters of Windows-1252. */
const western = /^[\u0020-\u007e\u00a0-\u00ff€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ]*$/
const outside = /[^\u0020-\u007e\u00a0-\u00ff€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ]/gu
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const controls = /[\u0000-\u001f\u007f-\u009f]/g

/**
 * Helvetica for western text; for other text the wanted font file, or a font of the system. Where there
 * is none, `?` stands for what cannot be shown.
 */
export function openFonts(document: PDFKit.PDFDocument, wanted: string | null): Fonts {
  const file = [wanted, ...places].find((path) => path && existsSync(path))
  if (file) document.registerFont('wide', file)
  const choose = (text: string, bold = false): string => {
    const clean = text.replace(controls, ' ')
    const isWestern = western.test(clean)
    document.font(isWestern || !file ? (bold ? 'Helvetica-Bold' : 'Helvetica') : 'wide')
    return isWestern || file ? clean : clean.replace(outside, '?')
  }
  const widthOf = (text: string, size: number, bold = false) => {
    const shown = choose(text, bold)
    return document.fontSize(size).widthOfString(shown)
  }
  const cut = (text: string, size: number, room: number) => {
    if (widthOf(text, size) <= room) return text
    const characters = [...text]
    let [fits, most] = [0, characters.length]
    while (fits < most) {
      const middle = Math.ceil((fits + most) / 2)
      if (widthOf(`${characters.slice(0, middle).join('')}…`, size) <= room) fits = middle
      else most = middle - 1
    }
    return `${characters.slice(0, fits).join('')}…`
  }
  return { choose, widthOf, cut }
}
