/** A department in the sample shop: products with typical prices, and the available finishes. */
export interface Department {
  things: readonly (readonly [name: string, usualPrice: number])[]
  finishes: readonly string[]
}

const colours = ['Slate', 'Cream', 'Forest Green', 'Midnight Blue', 'Terracotta', 'Charcoal', 'Ochre', 'Sage', 'White']
const woods = ['Oak', 'Walnut', 'Ash', 'Beech', 'Black Stain', 'White Oil', 'Cherry', 'Birch']
const metals = ['Brushed Steel', 'Matt Black', 'Copper', 'Graphite', 'Brass', 'Silver', 'Gunmetal', 'Ivory']

const kitchen: Department = {
  things: [
    ['Kettle', 54],
    ['Saucepan', 39],
    ['Frying Pan', 46],
    ['Teapot', 34],
    ['Mixing Bowl', 17],
    ['Pepper Mill', 28],
    ['Coffee Grinder', 62],
    ['Bread Bin', 36],
    ['Casserole', 89],
    ['Kitchen Scale', 31],
    ['Toaster', 58],
    ['Colander', 22],
  ],
  finishes: colours,
}

const office: Department = {
  things: [
    ['Desk Lamp', 64],
    ['Monitor Stand', 48],
    ['Letter Tray', 19],
    ['Pen Holder', 14],
    ['Filing Cabinet', 149],
    ['Standing Desk', 429],
    ['Bookend Pair', 24],
    ['Wall Clock', 37],
    ['Magazine Rack', 33],
    ['Waste Basket', 21],
  ],
  finishes: [...woods, ...metals],
}

const outdoors: Department = {
  things: [
    ['Tent', 219],
    ['Sleeping Bag', 129],
    ['Rucksack', 98],
    ['Water Bottle', 21],
    ['Rain Jacket', 139],
    ['Fleece', 69],
    ['Camping Chair', 44],
    ['Dry Bag', 18],
    ['Hammock', 52],
    ['Cool Box', 76],
  ],
  finishes: [...colours, 'Small', 'Medium', 'Large'],
}

const electronics: Department = {
  things: [
    ['Wireless Headphones', 129],
    ['Bookshelf Speaker', 179],
    ['Mechanical Keyboard', 99],
    ['USB-C Hub', 45],
    ['Power Bank', 38],
    ['Webcam', 72],
    ['Turntable', 249],
    ['Desk Radio', 84],
    ['Trackball', 59],
    ['Portable Drive', 92],
  ],
  finishes: [...metals, 'White', 'Midnight Blue'],
}

const home: Department = {
  things: [
    ['Floor Lamp', 118],
    ['Side Table', 95],
    ['Bookshelf', 189],
    ['Coat Stand', 74],
    ['Armchair', 349],
    ['Picture Frame', 16],
    ['Storage Box', 23],
    ['Stool', 57],
    ['Mirror', 82],
    ['Plant Stand', 41],
  ],
  finishes: woods,
}

export const departments: readonly Department[] = [kitchen, office, outdoors, electronics, home]

/** Invented brands. */
export const makers: readonly string[] = [
  ...[
    'Alder & Finch',
    'Brightwater',
    'Calderstone',
    'Dunmore',
    'Eastlake',
    'Fernhill',
    'Grove & Daughters',
    'Harrowby',
  ],
  ...['Inverleith', 'Juniper Works', 'Kestrel', 'Lindholm', 'Marlowe', 'Nordhaven', 'Oakridge', 'Pemberly', 'Quayside'],
  ...['Rosendal', 'Saltmarsh', 'Thornbury', 'Ullswater', 'Værk', 'Westray', 'Yarrow & Sons'],
]

/** Product lines that every brand offers, each with the factor by which it changes the typical price. */
export const wordLines: readonly (readonly [name: string, share: number])[] = [
  ['Classic', 1],
  ['Everyday', 0.75],
  ['Compact', 0.85],
  ['Studio', 1.2],
  ['Heritage', 1.35],
  ['Pro', 1.5],
  ['Travel', 0.9],
  ['Signature', 1.6],
]
