import type { Sheet } from './format.ts'
import { maxDecimalPlaces, xmlText } from './xlsx-sheet.ts'

export const sheetPath = (at: number): string => `xl/worksheets/sheet${at + 1}.xml`

const declaration = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
const main = 'http://schemas.openxmlformats.org/spreadsheetml/2006/main'
const packages = 'http://schemas.openxmlformats.org/package/2006'
const relations = 'http://schemas.openxmlformats.org/officeDocument/2006/relationships'
const types = 'application/vnd.openxmlformats-officedocument.spreadsheetml'

/** Returns a workbook's parts other than its sheets, with their paths (ECMA-376 part 1 §12). */
export function parts(sheet: Sheet, sheets: number): [path: string, text: string][] {
  return [
    ['[Content_Types].xml', declaration + contentTypes(sheets)],
    ['_rels/.rels', declaration + relationships([['officeDocument', 'xl/workbook.xml']])],
    ['xl/workbook.xml', declaration + workbook(sheet, sheets)],
    ['xl/_rels/workbook.xml.rels', declaration + workbookRelationships(sheets)],
    ['xl/styles.xml', declaration + styleSheet],
  ]
}

const each = (sheets: number, make: (at: number) => string) => Array.from({ length: sheets }, (_, at) => make(at))

function contentTypes(sheets: number): string {
  const part = (path: string, kind: string) => `<Override PartName="/${path}" ContentType="${types}.${kind}+xml"/>`
  return [
    `<Types xmlns="${packages}/content-types">`,
    `<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>`,
    part('xl/workbook.xml', 'sheet.main'),
    part('xl/styles.xml', 'styles'),
    ...each(sheets, (at) => part(sheetPath(at), 'worksheet')),
    '</Types>',
  ].join('')
}

function relationships(targets: [type: string, target: string][]): string {
  const entries = targets.map(
    ([type, target], at) => `<Relationship Id="rId${at + 1}" Type="${relations}/${type}" Target="${target}"/>`,
  )
  return `<Relationships xmlns="${packages}/relationships">${entries.join('')}</Relationships>`
}

function workbookRelationships(sheets: number): string {
  const own = (path: string) => path.slice('xl/'.length)
  const worksheets = each(sheets, (at) => own(sheetPath(at))).map((path): [string, string] => ['worksheet', path])
  return relationships([...worksheets, ['styles', 'styles.xml']])
}

function workbook({ title }: Sheet, sheets: number): string {
  const named = each(sheets, (at) => {
    const name = at === 0 ? sheetName(title) : `${sheetName(title)} (${at + 1})`
    return `<sheet name="${xmlText(name).replaceAll('"', '&quot;')}" sheetId="${at + 1}" r:id="rId${at + 1}"/>`
  })
  return `<workbook xmlns="${main}" xmlns:r="${relations}"><sheets>${named.join('')}</sheets></workbook>`
}

/** Returns a sheet name without forbidden characters. The format allows 31 characters; 5 are left for ` (10)`. */
const sheetName = (title: string) => title.replace(/[\\/*?:[\]]/g, ' ').slice(0, 26) || 'report'

const decimalPlaces = Array.from({ length: maxDecimalPlaces + 1 }, (_, places) => places)
const firstDecimalFormat = 166
const decimalFormats = decimalPlaces.map((places) => {
  const code = places === 0 ? '0' : `0.${'0'.repeat(places)}`
  return `<numFmt numFmtId="${firstDecimalFormat + places}" formatCode="${code}"/>`
})
const decimalStyles = decimalPlaces.map(
  (places) => `<xf xfId="0" numFmtId="${firstDecimalFormat + places}" applyNumberFormat="1"/>`,
)

/**
 * Cell formats: plain; header (bold on gray); instant; date; header of a numeric column; decimals, with one format per
 * number of decimal places; decimal as text.
 */
const styleSheet = [
  `<styleSheet xmlns="${main}">`,
  `<numFmts count="${2 + decimalFormats.length}"><numFmt numFmtId="164" formatCode="yyyy\\-mm\\-dd\\ hh:mm:ss"/>`,
  `<numFmt numFmtId="165" formatCode="yyyy\\-mm\\-dd"/>${decimalFormats.join('')}</numFmts>`,
  '<fonts count="2"><font><sz val="11"/><name val="Calibri"/></font>',
  '<font><b/><sz val="11"/><name val="Calibri"/></font></fonts>',
  '<fills count="3"><fill><patternFill patternType="none"/></fill><fill><patternFill patternType="gray125"/></fill>',
  '<fill><patternFill patternType="solid"><fgColor rgb="FFE8ECF1"/></patternFill></fill></fills>',
  '<borders count="1"><border/></borders><cellStyleXfs count="1"><xf/></cellStyleXfs>',
  `<cellXfs count="${6 + decimalStyles.length}">`,
  '<xf xfId="0"/><xf xfId="0" fontId="1" fillId="2" applyFont="1" applyFill="1"/>',
  '<xf xfId="0" numFmtId="164" applyNumberFormat="1"/><xf xfId="0" numFmtId="165" applyNumberFormat="1"/>',
  '<xf xfId="0" fontId="1" fillId="2" applyFont="1" applyFill="1" applyAlignment="1">',
  `<alignment horizontal="right"/></xf>${decimalStyles.join('')}`,
  '<xf xfId="0" applyAlignment="1"><alignment horizontal="right"/></xf></cellXfs></styleSheet>',
].join('')
